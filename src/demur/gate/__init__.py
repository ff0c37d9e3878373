"""The gate: request in, durable decision out. The only part that knows the order."""
