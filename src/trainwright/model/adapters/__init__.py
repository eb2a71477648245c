"""Few weights that are trained beside a frozen base."""
