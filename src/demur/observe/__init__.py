"""Watching: metrics, traces, log lines and alert rules over what was decided."""
