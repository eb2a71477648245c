"""`trainwright data`: cache, check, diff, distil, show, tokenize."""
