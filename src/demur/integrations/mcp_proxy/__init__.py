"""A proxy that guards an MCP server without changing it, with raw JSON-RPC on both sides."""
