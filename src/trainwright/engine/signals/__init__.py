"""Measurements of the training: telemetry windows, norms, throughput, FLOPs."""
