"""Data sources: files, folders, object stores, databases, frames, and the cache."""
