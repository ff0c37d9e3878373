"""Guards and gate for one MCP server: rulings on everything that passes the proxy."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from demur.codes.vocabulary import Surface
from demur.enforce.described import describe_call
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.enforce.texts import texts_in
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardStep, Pipeline
from demur.gate.standard import standard_pipeline
from demur.guards.builtin import builtin_guard
from demur.guards.returned.retrieval import Passage
from demur.guards.tool_call.guard import ToolConfig
from demur.integrations.mcp_proxy.definitions import DefinitionGuard, Offered
from demur.integrations.mcp_proxy.pins import Pins
from demur.integrations.mcp_proxy.texts import readable

__all__ = ["FRAMEWORK", "LISTING", "Judge", "Known", "Rules", "judge_of"]

FRAMEWORK = "mcp-proxy"
# The recorded action for offered prompts and resources.
LISTING = "mcp.listing"
_ORDINARY = "ordinary words"
_SURFACES = (
    *(Surface.INPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT),
    *(Surface.RETRIEVAL, Surface.CODE_EXECUTION),
)


class Rules(NamedTuple):
    """Pins, allowed and denied tools, and whether to detect loops of calls."""

    pins: Pins | None = None
    allow: Sequence[str] | None = None
    deny: Sequence[str] = ()
    loops: bool = True


class Known(NamedTuple):
    """An offered tool, and whether its definition is trusted."""

    tool: Offered
    trusted: bool


class Judge(NamedTuple):
    """Judges what passes the proxy: `calls` with all guards, `definitions` with those of tools.

    `pinned` says that definitions are pinned, so that a call need not include them. `run` names
    the session where a server has several: loops are detected within one session.
    """

    server: str
    calls: Enforcer
    definitions: Enforcer
    pinned: bool = False
    run: str | None = None

    def at(self, call_id: object = None) -> Occasion:
        """Return the call context of this server."""
        identity = None if call_id is None else str(call_id)[:256]
        run = self.server if self.run is None else f"{self.server}/{self.run}"
        return Occasion(framework=FRAMEWORK, run=run, call_id=identity)

    def warm(self) -> None:
        """Have guards compile their rules now, so that the first call is not slow."""
        for surface in (Surface.RETRIEVAL, Surface.TOOL_CALL, Surface.TOOL_RESULT):
            self.calls.pipeline.run(surface, _ORDINARY)

    async def definition(self, tool: Offered) -> Ruling:
        """Return the ruling on an offered tool; its name is the action."""
        return await self.definitions.acheck(Surface.TOOL_CALL, tool, self.at(), action=tool.name)

    async def call(
        self, name: str, arguments: Mapping[str, Any], known: Known | None, call_id: object
    ) -> Ruling:
        """Return the ruling on a call; `known` is the tool that is offered by that name."""
        at = self.at(call_id)
        if known is not None and not known.trusted:
            chosen = replace(known.tool, called=True)
            ruling = await self.definitions.acheck(Surface.TOOL_CALL, chosen, at, action=name)
            if not ruling.allowed:
                return ruling
        # A pin covers the schema, and a person has agreed to the rest.
        shown = None if known is None or self.pinned else known.tool.tool
        return await self.calls.atool_call(name, arguments, at, tool=shown, source=self.server)

    async def result(
        self, name: str, value: Any, arguments: Mapping[str, Any] | None, call_id: object
    ) -> Ruling:
        """Return the ruling on what a tool returned."""
        at = self.at(call_id)
        return await self.calls.atool_result(name, readable(value), at, arguments=arguments)

    async def passage(self, value: Any, source: str, action: str, call_id: object = None) -> Ruling:
        """Return the ruling on content of the server that a model reads."""
        text = _text(value)
        event = None if text is None else Passage(text, source)
        return await self.calls.acheck(Surface.RETRIEVAL, event, self.at(call_id), action=action)

    async def sampling(self, value: Any, call_id: object) -> Ruling:
        """Return the ruling on a sampling request of the server."""
        return await self.calls.aprompt(cast("str", _text(value)), self.at(call_id))


def _text(value: Any) -> str | None:
    """Return the text that a model would read; None, which guards refuse, if it is too much."""
    try:
        return texts_in(readable(value))
    except InputError:
        return None


def judge_of(gate: Gate | None, server: str, rules: Rules) -> Judge:
    """Return the judge of a server; without a gate only guards judge, and nothing is stored."""

    def describe(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**describe_call(name, arguments), "trace": {"server": server}}

    definitions = Pipeline([GuardStep(DefinitionGuard(rules.pins), name="tool_definition")])
    return Judge(
        server,
        Enforcer(gate, pipeline=_pipeline(rules), describe=describe),
        Enforcer(gate, pipeline=definitions),
        pinned=rules.pins is not None,
    )


def _pipeline(rules: Rules) -> Pipeline:
    surfaces = (*_SURFACES, Surface.TOOL_LOOP) if rules.loops else _SURFACES
    config = ToolConfig(
        manifest=None if rules.pins is None else rules.pins.manifest,
        allow=None if rules.allow is None else tuple(rules.allow),
        deny=tuple(rules.deny),
    )
    own = builtin_guard(Surface.TOOL_CALL)
    steps = standard_pipeline(*surfaces).steps
    return Pipeline(step._replace(config=config) if step.guard is own else step for step in steps)
