"""The guard that the middlewares of MCP servers share; it knows neither framework."""
