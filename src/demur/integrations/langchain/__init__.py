"""LangChain and LangGraph: a middleware for agents, and a node of tools for graphs without one.

An agent made by `create_agent` takes a `RefusalMiddleware`; a graph of one's own takes the node
that `guard_tool_node` makes, and asks `run_ended` where to go from there.
"""

from demur.integrations.extras import missing_extra

try:
    import langchain.agents.middleware  # noqa: F401 - only to say at once what is missing
    import langgraph.prebuilt  # noqa: F401 - likewise
except ImportError as error:
    raise missing_extra("langchain") from error

from demur.integrations.langchain.middleware import RefusalMiddleware
from demur.integrations.langchain.tool_node import guard_tool_node, run_ended

__all__ = ["RefusalMiddleware", "guard_tool_node", "run_ended"]
