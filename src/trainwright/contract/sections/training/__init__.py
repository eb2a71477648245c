"""`training`: how a network is trained."""
