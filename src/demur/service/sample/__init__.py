"""A believable day of decisions, made by a real gate and real guards, and marked as a sample."""
