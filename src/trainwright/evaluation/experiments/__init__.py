"""Findings of the leakage audit tried: the clause judged without what each of them names."""
