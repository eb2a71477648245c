"""Train/validation/test splits: random, stratified, group, time and cross-validation."""
