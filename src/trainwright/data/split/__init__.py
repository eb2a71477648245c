"""Training, validation and test rows: random, stratified, by group, by time, in folds."""
