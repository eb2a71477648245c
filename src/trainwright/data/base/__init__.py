"""Arrays, cells, storage and messages shared by the data packages."""
