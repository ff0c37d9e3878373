"""The guards of text that comes back: tool results and retrieved passages."""
