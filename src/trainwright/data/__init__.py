"""From files to encoded rows: sources, columns, splits, features, versions, the feed."""
