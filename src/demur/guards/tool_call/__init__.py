"""The guard of a tool call: who is called, with what, and may it."""
