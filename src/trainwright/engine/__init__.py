"""Training loop, optimizer step, guards, stop rules and telemetry."""
