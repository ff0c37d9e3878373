"""Rules over text: read from files, compiled to one database, held to their own rows."""
