"""Durable decision records: SQLite on a laptop, PostgreSQL for many writers."""
