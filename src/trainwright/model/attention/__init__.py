"""Attention kernels, shared by transformers."""
