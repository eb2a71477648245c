"""What is wrong with the data: one type of finding, and small detectors for one fault each."""
