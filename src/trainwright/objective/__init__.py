"""Losses as (sum, count)."""
