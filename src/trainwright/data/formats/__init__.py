"""File formats: detection and parsing. Independent of the contract."""
