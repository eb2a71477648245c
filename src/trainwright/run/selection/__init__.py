"""Selection of a model: candidates, how they compare, and the ensemble of them."""
