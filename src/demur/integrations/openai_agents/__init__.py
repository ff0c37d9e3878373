"""OpenAI Agents SDK: prompts, tool calls, results, answers and refusals of agents.

`AgentsGuard(enforcer).run(agent, text)` guards a run throughout; `protect(agent)` attaches
guardrails to an agent, its function tools, its MCP servers and whom it hands over to.
"""

from demur.integrations.extras import missing_extra

try:
    import agents.tool_guardrails  # noqa: F401 - only to say at once what is missing
except ImportError as error:
    raise missing_extra("openai-agents") from error

from demur.integrations.openai_agents.guard import AgentsGuard

__all__ = ["AgentsGuard"]
