"""Duplicates and near duplicates of rows, texts and images."""
