"""Values only: refusals, decisions and grants. Frozen, and never inconsistent."""
