"""Sinks: a process each that reads a run folder and sends it to a tracker."""
