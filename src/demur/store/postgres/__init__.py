"""Decision records in PostgreSQL: the same schema for many writers. Needs `demur[postgres]`."""
