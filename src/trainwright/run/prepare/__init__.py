"""From a contract to prepared data and a plan, before budget is spent."""
