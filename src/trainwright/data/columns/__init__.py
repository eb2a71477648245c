"""Column type inference, typed values and the target."""
