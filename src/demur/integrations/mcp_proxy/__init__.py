"""A proxy that guards an MCP server without changing it, with raw JSON-RPC on both sides.

`ConnectionGuard` guards one connection; `make_judge` makes its judge from a gate and `ProxyRules`.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.integrations.mcp_proxy.definitions import ToolPins, read_pins
    from demur.integrations.mcp_proxy.guard import ConnectionGuard, ProxyOutput
    from demur.integrations.mcp_proxy.judge import ProxyRules, make_judge

__all__ = [
    "ConnectionGuard",
    "ProxyOutput",
    "ProxyRules",
    "ToolPins",
    "make_judge",
    "read_pins",
]

_HOMES = {
    "demur.integrations.mcp_proxy.definitions": "ToolPins read_pins",
    "demur.integrations.mcp_proxy.guard": "ConnectionGuard ProxyOutput",
    "demur.integrations.mcp_proxy.judge": "ProxyRules make_judge",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
