"""The loop, the step, the guard, the stop rules."""
