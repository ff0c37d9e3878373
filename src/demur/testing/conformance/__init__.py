"""The same scenes through every adapter: a refusal reads the same wherever it lands."""
