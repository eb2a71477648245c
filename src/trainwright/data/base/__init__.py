"""Arrays, cells and messages that every part of the data layer uses."""
