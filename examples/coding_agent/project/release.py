"""Stand in for a release: it only says that it ran."""

print("released")
