"""Learners behind one protocol: the training loop, and libraries that fit themselves."""
