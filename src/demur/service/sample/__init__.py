"""Sample decisions of one day, made by a real gate and real guards, and marked as a sample."""
