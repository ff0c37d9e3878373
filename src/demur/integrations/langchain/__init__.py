"""LangChain and LangGraph: a middleware for agents, guarded chat models, and a tool node.

Pass `LangChainGuard` as middleware to `create_agent`. In a chain, use the model that
`guard_langchain_model` returns. In a custom graph, add the node that `guard_tool_node` returns,
and route with `has_run_ended` after it.
"""

from demur.integrations._kit import missing_extra

try:
    import langchain.agents.middleware  # noqa: F401 - fail early with the name of the extra
    import langgraph.prebuilt  # noqa: F401 - likewise
except ImportError as error:
    raise missing_extra("langchain") from error

from demur.integrations.langchain.middleware import LangChainGuard
from demur.integrations.langchain.model import guard_langchain_model
from demur.integrations.langchain.tool_node import guard_tool_node, has_run_ended

__all__ = ["LangChainGuard", "guard_langchain_model", "guard_tool_node", "has_run_ended"]
