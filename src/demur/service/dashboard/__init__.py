"""The dashboard: pages for people, rendered on the server, from the same parts as the API."""
