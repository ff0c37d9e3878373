"""Memory of labelled outcomes: what a request resembles, and what follows from that."""
