"""The trainings of the benchmark on trouble named early."""
