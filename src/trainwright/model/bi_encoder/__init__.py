"""One encoder of queries and passages."""
