"""The guard of how often something is asked for."""
