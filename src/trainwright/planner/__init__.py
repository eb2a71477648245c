"""Planning: resolves every auto of a contract, with its reason and its cost."""
