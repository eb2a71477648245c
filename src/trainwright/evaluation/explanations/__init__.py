"""What a model reads: permutation importance, partial dependence, contributions of columns."""
