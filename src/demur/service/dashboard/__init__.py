"""The dashboard: pages rendered on the server, from the same parts as the API."""
