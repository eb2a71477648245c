"""Events, signals and the run folder: what a run leaves behind. Imports no torch."""
