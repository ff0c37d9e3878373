"""Observability: metrics, traces, log lines and alert rules for decisions."""
