"""Fakes and conformance suites for every seam."""
