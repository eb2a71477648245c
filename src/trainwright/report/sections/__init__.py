"""Sections of the report as table rows."""
