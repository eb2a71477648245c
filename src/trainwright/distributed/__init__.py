"""Distributed strategies; a single process is the simplest one."""
