"""The service: decisions, guards and records over HTTP, and the dashboard."""
