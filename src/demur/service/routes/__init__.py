"""What the service answers, one module a noun."""
