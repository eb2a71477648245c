"""Gradient-boosted trees by CatBoost."""
