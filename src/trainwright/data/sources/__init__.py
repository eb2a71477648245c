"""Where rows come from: files, folders, object stores, databases, frames, and the cache."""
