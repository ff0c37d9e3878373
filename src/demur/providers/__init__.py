"""Every refusal signal of providers and frameworks, read into one type."""
