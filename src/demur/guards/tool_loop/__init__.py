"""The guard of the calls made so far: repeats, circles and budgets."""
