"""Data loading: datasets, workers, device copies and augmentation. Needs torch."""
