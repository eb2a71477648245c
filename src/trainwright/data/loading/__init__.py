"""Batches: datasets, workers, device copies, augmentation. The part of data/ that needs torch."""
