"""A kind of data that is not part of the package: spectra in a NumPy file."""
