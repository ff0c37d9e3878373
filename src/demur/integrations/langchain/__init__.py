"""LangChain and LangGraph: a middleware for agents, and a tool node for graphs without one.

Pass `LangChainGuard` as middleware to `create_agent`. In a custom graph, add the node that
`guard_tool_node` returns, and route with `has_run_ended` after it.
"""

from demur.integrations._kit import missing_extra

try:
    import langchain.agents.middleware  # noqa: F401 - fail early with the name of the extra
    import langgraph.prebuilt  # noqa: F401 - likewise
except ImportError as error:
    raise missing_extra("langchain") from error

from demur.integrations.langchain.middleware import LangChainGuard
from demur.integrations.langchain.tool_node import guard_tool_node, has_run_ended

__all__ = ["LangChainGuard", "guard_tool_node", "has_run_ended"]
