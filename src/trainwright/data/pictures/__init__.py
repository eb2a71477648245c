"""Image files of every kind of source, and the arrays they become."""
