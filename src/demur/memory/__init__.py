"""Memory of labelled outcomes: find similar experiences and apply them to a verdict."""
