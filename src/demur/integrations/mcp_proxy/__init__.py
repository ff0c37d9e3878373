"""A proxy before an MCP server that guards it without changing it: raw JSON-RPC on both sides."""
