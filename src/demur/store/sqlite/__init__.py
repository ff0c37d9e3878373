"""Decision records in SQLite: the embedded default."""
