"""`init`: a first contract for whatever data there is."""
