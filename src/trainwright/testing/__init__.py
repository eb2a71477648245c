"""Fakes and conformance suites of every protocol."""
