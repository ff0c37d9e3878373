"""The guard of what a user wrote."""
