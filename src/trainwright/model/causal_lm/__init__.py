"""Causal language models of transformers."""
