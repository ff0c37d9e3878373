"""The guard of what a model answers, whole or as a stream."""
