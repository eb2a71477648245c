"""Sections of the contract, a module each: fields, defaults and what a single section refuses."""
