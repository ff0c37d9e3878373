"""Guards and gate for one MCP server: rulings on everything that passes the proxy."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from demur.codes.vocabulary import Surface
from demur.enforce.described import describe_call
from demur.enforce.enforcer import Enforcer, CallContext
from demur.enforce.ruling import CheckResult
from demur.enforce.texts import extract_texts
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardStep, GuardPipeline
from demur.gate.standard import standard_pipeline
from demur.guards.builtin import load_builtin
from demur.guards.returned.retrieval import RetrievedPassage
from demur.guards.tool_call.guard import ToolConfig
from demur.integrations.mcp_proxy.definitions import DefinitionGuard, OfferedTool
from demur.integrations.mcp_proxy.pins import ToolPins
from demur.integrations.mcp_proxy.texts import readable_content

__all__ = ["FRAMEWORK", "LISTING_ACTION", "ProxyJudge", "JudgedTool", "ProxyRules", "make_judge"]

FRAMEWORK = "mcp-proxy"
# The recorded action for offered prompts and resources.
LISTING_ACTION = "mcp.listing"
_WARM_UP_TEXT = "ordinary words"
_SURFACES = (
    *(Surface.INPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT),
    *(Surface.RETRIEVAL, Surface.CODE_EXECUTION),
)


class ProxyRules(NamedTuple):
    """Pins, allowed and denied tools, and whether to detect loops of calls."""

    pins: ToolPins | None = None
    allow: Sequence[str] | None = None
    deny: Sequence[str] = ()
    loops: bool = True


class JudgedTool(NamedTuple):
    """An offered tool, and whether its definition is trusted."""

    tool: OfferedTool
    trusted: bool


class ProxyJudge(NamedTuple):
    """Judges what passes the proxy: `calls` with all guards, `definitions` with those of tools.

    `pinned` says that definitions are pinned, so that a call need not include them. `run` names
    the session where a server has several: loops are detected within one session.
    """

    server: str
    calls: Enforcer
    definitions: Enforcer
    pinned: bool = False
    run: str | None = None

    def call_context(self, call_id: object = None) -> CallContext:
        """Return the call context of this server."""
        identity = None if call_id is None else str(call_id)[:256]
        run = self.server if self.run is None else f"{self.server}/{self.run}"
        return CallContext(framework=FRAMEWORK, run=run, call_id=identity)

    def warm_up(self) -> None:
        """Have guards compile their rules now, so that the first call is not slow."""
        for surface in (Surface.RETRIEVAL, Surface.TOOL_CALL, Surface.TOOL_RESULT):
            self.calls.pipeline.run(surface, _WARM_UP_TEXT)

    async def check_tool(self, tool: OfferedTool) -> CheckResult:
        """Return the ruling on an offered tool; its name is the action."""
        return await self.definitions.acheck_event(
            Surface.TOOL_CALL, tool, self.call_context(), action=tool.name
        )

    async def check_call(
        self, name: str, arguments: Mapping[str, Any], known: JudgedTool | None, call_id: object
    ) -> CheckResult:
        """Return the ruling on a call; `known` is the tool that is offered by that name."""
        at = self.call_context(call_id)
        if known is not None and not known.trusted:
            chosen = replace(known.tool, called=True)
            ruling = await self.definitions.acheck_event(Surface.TOOL_CALL, chosen, at, action=name)
            if not ruling.allowed:
                return ruling
        # A pin covers the schema, and a person has agreed to the rest.
        shown = None if known is None or self.pinned else known.tool.tool
        return await self.calls.acheck_tool_call(
            name, arguments, at, tool=shown, source=self.server
        )

    async def check_result(
        self, name: str, value: Any, arguments: Mapping[str, Any] | None, call_id: object
    ) -> CheckResult:
        """Return the ruling on what a tool returned."""
        at = self.call_context(call_id)
        return await self.calls.acheck_tool_result(
            name, readable_content(value), at, arguments=arguments
        )

    async def check_passage(
        self, value: Any, source: str, action: str, call_id: object = None
    ) -> CheckResult:
        """Return the ruling on content of the server that a model reads."""
        text = _readable_text(value)
        event = None if text is None else RetrievedPassage(text, source)
        return await self.calls.acheck_event(
            Surface.RETRIEVAL, event, self.call_context(call_id), action=action
        )

    async def check_sampling(self, value: Any, call_id: object) -> CheckResult:
        """Return the ruling on a sampling request of the server."""
        return await self.calls.acheck_prompt(
            cast("str", _readable_text(value)), self.call_context(call_id)
        )


def _readable_text(value: Any) -> str | None:
    """Return the text that a model would read; None, which guards refuse, if it is too much."""
    try:
        return extract_texts(readable_content(value))
    except InputError:
        return None


def make_judge(gate: Gate | None, server: str, rules: ProxyRules) -> ProxyJudge:
    """Return the judge of a server; without a gate only guards judge, and nothing is stored."""

    def describe(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**describe_call(name, arguments), "trace": {"server": server}}

    definitions = GuardPipeline([GuardStep(DefinitionGuard(rules.pins), name="tool_definition")])
    return ProxyJudge(
        server,
        Enforcer(gate, pipeline=_build_pipeline(rules), describe=describe),
        Enforcer(gate, pipeline=definitions),
        pinned=rules.pins is not None,
    )


def _build_pipeline(rules: ProxyRules) -> GuardPipeline:
    surfaces = (*_SURFACES, Surface.TOOL_LOOP) if rules.loops else _SURFACES
    config = ToolConfig(
        manifest=None if rules.pins is None else rules.pins.manifest,
        allow=None if rules.allow is None else tuple(rules.allow),
        deny=tuple(rules.deny),
    )
    own = load_builtin(Surface.TOOL_CALL)
    steps = standard_pipeline(*surfaces).steps
    return GuardPipeline(
        step._replace(config=config) if step.guard is own else step for step in steps
    )
