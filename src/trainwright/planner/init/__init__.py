"""`init`: propose a first contract for the data."""
