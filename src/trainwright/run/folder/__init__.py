"""Files of a run folder: checks, table of runs, copies, interruptions."""
