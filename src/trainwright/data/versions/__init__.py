"""Versions of data: hashes, snapshots and differences."""
