"""Tables made with and without leaks."""
