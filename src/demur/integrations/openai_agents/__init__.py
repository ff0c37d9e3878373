"""OpenAI Agents SDK: guard agents, their tools, handoffs, answers and sessions.

`OpenAIAgentsGuard(enforcer).run(agent, text)` guards a whole run; `protect(agent)` attaches
guardrails to an agent, its function tools, its MCP servers and its handoffs.
"""

from demur.integrations._kit import missing_extra

try:
    import agents.tool_guardrails  # noqa: F401 - fail early with the name of the extra
except ImportError as error:
    raise missing_extra("openai-agents") from error

from demur.integrations.openai_agents.guard import OpenAIAgentsGuard

__all__ = ["OpenAIAgentsGuard"]
