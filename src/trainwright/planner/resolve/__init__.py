"""Every `auto` of a contract resolved, each with its reason."""
