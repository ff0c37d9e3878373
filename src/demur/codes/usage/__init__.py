"""How reason codes are used in sources and policies, and where they are misused."""
