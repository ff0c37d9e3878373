"""Policies: YAML in, a checked value, and compiled functions that judge requests by it."""
