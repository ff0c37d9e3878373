"""The guard of a compacted context, held against the one before."""
