"""The registry of reason codes, and the refusal line that carries one."""
