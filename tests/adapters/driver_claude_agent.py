"""The stage of the Claude Agent SDK: its client, the CLI it brings, and a model that is played."""

import asyncio
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adapters.claude_api import ClaudeApi, ask, claude_api, say
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    Message,
    SdkMcpTool,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
)

from demur.enforce.enforcer import Enforcer
from demur.integrations.claude_agent import claude_hooks
from demur.model.refusal import Refusal
from demur.testing.scenarios import (
    AnswerTurn,
    CheckPoint,
    FrameworkDriver,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

__all__ = [
    "DRIVERS",
    "SERVER",
    "ClaudeAgentDriver",
    "played",
    "refusal_in",
    "seen_of",
    "session",
    "turns_of",
]

SERVER = "scene"
_LINE = re.compile(r"REFUSED: [^\n]*")


class ClaudeAgentDriver:
    """Runs scenarios in a session of the real CLI; what is refused is read from its messages."""

    name = "claude-agent-sdk"
    points = frozenset({CheckPoint.PROMPT, CheckPoint.TOOL_CALL, CheckPoint.TOOL_RESULT})
    # The CLI takes no changed prompt.
    skipped = frozenset({"secret in a prompt"})
    ends_runs = True

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        with TemporaryDirectory() as folder, claude_api(list(turns_of(scenario))) as api:
            options = session(Path(folder), api, tools)
            options.hooks = claude_hooks(enforcer, own_servers={SERVER})
            return seen_of(asyncio.run(played(scenario.prompt, options)), api)


def session(folder: Path, api: ClaudeApi, tools: ScenarioTools) -> ClaudeAgentOptions:
    """Return options of a session with the tools of a scenario, and no hooks yet."""
    return ClaudeAgentOptions(
        cwd=folder,
        env=api.environment(folder),
        tools=["Read"],
        mcp_servers={SERVER: create_sdk_mcp_server(SERVER, tools=_offered(tools))},
        allowed_tools=[f"mcp__{SERVER}__{name}" for name in tools.names],
    )


async def played(prompt: str, options: ClaudeAgentOptions) -> list[Message]:
    """Return the messages of one session."""
    return [message async for message in query(prompt=prompt, options=options)]


def refusal_in(text: str) -> Refusal | None:
    """Return the refusal whose line stands in a text, with the limits that the model reads."""
    found = _LINE.search(text)
    refusal = None if found is None else Refusal.from_line(found[0])
    limits = re.search(r"Accept (.+?) and send it again", text)
    if refusal is None or limits is None:
        return refusal
    evidence = {"constraints": limits[1].split(", ")}
    return Refusal.from_code(refusal.code, refusal.detail, evidence=evidence)


def turns_of(scenario: Scenario) -> Iterator[list[dict[str, Any]]]:
    """Yield what the model of a scenario says, turn by turn."""
    for place, turn in enumerate(scenario.turns):
        if isinstance(turn, ToolTurn):
            calls = ((f"mcp__{SERVER}__{name}", given) for name, given in turn.calls)
            yield ask(*calls, turn=place)
        elif isinstance(turn, AnswerTurn):
            yield say(turn.text)


def _offered(tools: ScenarioTools) -> list[SdkMcpTool[Any]]:
    return [_tool(name, tools) for name in tools.names]


def _tool(name: str, tools: ScenarioTools) -> SdkMcpTool[Any]:
    async def run(given: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"content": [{"type": "text", "text": tools.run(name, given)}]}

    return SdkMcpTool(name, f"does {name}", {"type": "object", "properties": {}}, run)


def seen_of(messages: Iterable[Message], api: ClaudeApi) -> ScenarioResult:
    """Return what was seen of a session."""
    shown: list[str] = []
    heard: list[str] = []
    open_calls: set[str] = set()
    for message in messages:
        if isinstance(message, SystemMessage):
            shown.append(str(message.data.get("content", "")))
        if not isinstance(message, AssistantMessage | UserMessage):
            continue
        for block in message.content if isinstance(message.content, list) else ():
            if isinstance(block, TextBlock):
                shown.append(block.text)
            elif isinstance(block, ToolUseBlock):
                open_calls.add(block.id)
            elif isinstance(block, ToolResultBlock):
                open_calls.discard(block.tool_use_id)
                heard.append(str(block.content))
    heard.append(api.said_after(1))
    text = "\n".join(shown)
    return ScenarioResult(
        refusal_in("\n".join([text, *heard])),
        text,
        "\n".join(heard),
        len(open_calls),
        model_calls=len(api.heard),
    )


DRIVERS: tuple[FrameworkDriver, ...] = (ClaudeAgentDriver(),)
