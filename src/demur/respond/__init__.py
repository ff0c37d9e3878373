"""Words for people: graceful refusals composed from a decision, and a linter of refusals."""
