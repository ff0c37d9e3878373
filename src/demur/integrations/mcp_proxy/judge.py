"""Who is asked about each thing that passes the proxy: guards and gate, in the server's name."""

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
# The action of a server that offers something else than tools, on record.
LISTING = "mcp.listing"
_ORDINARY = "ordinary words"
_SURFACES = (
    *(Surface.INPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT),
    *(Surface.RETRIEVAL, Surface.CODE_EXECUTION),
)


class Rules(NamedTuple):
    """What is pinned, permitted and forbidden, and whether loops of calls are looked for."""

    pins: Pins | None = None
    allow: Sequence[str] | None = None
    deny: Sequence[str] = ()
    loops: bool = True


class Known(NamedTuple):
    """A tool that was offered, and whether it was found to be what it should be."""

    tool: Offered
    trusted: bool


class Judge(NamedTuple):
    """Rules on what passes the proxy: `calls` by all guards, `definitions` by those of tools.

    `pinned` says that definitions are held to pins, so that a call need not show them. `run`
    names the session, where a server has several: loops are looked for within one.
    """

    server: str
    calls: Enforcer
    definitions: Enforcer
    pinned: bool = False
    run: str | None = None

    def at(self, call_id: object = None) -> Occasion:
        """Return where something happens: at this server, in this call."""
        identity = None if call_id is None else str(call_id)[:256]
        run = self.server if self.run is None else f"{self.server}/{self.run}"
        return Occasion(framework=FRAMEWORK, run=run, call_id=identity)

    def warm(self) -> None:
        """Have guards compile their rules now, not on the time of the first call."""
        for surface in (Surface.RETRIEVAL, Surface.TOOL_CALL, Surface.TOOL_RESULT):
            self.calls.pipeline.run(surface, _ORDINARY)

    async def definition(self, tool: Offered) -> Ruling:
        """Return the ruling on a tool that the server offers; policies know it by its name."""
        return await self.definitions.acheck(Surface.TOOL_CALL, tool, self.at(), action=tool.name)

    async def call(
        self, name: str, arguments: Mapping[str, Any], known: Known | None, call_id: object
    ) -> Ruling:
        """Return the ruling on a call; `known` is what is offered by that name now."""
        at = self.at(call_id)
        if known is not None and not known.trusted:
            chosen = replace(known.tool, called=True)
            ruling = await self.definitions.acheck(Surface.TOOL_CALL, chosen, at, action=name)
            if not ruling.allowed:
                return ruling
        # A pin holds the schema, and who pinned it has read the rest.
        shown = None if known is None or self.pinned else known.tool.tool
        return await self.calls.atool_call(name, arguments, at, tool=shown, source=self.server)

    async def result(
        self, name: str, value: Any, arguments: Mapping[str, Any] | None, call_id: object
    ) -> Ruling:
        """Return the ruling on what a tool returned."""
        at = self.at(call_id)
        return await self.calls.atool_result(name, readable(value), at, arguments=arguments)

    async def passage(self, value: Any, source: str, action: str, call_id: object = None) -> Ruling:
        """Return the ruling on what the server hands out for a model to read."""
        text = _text(value)
        event = None if text is None else Passage(text, source)
        return await self.calls.acheck(Surface.RETRIEVAL, event, self.at(call_id), action=action)

    async def sampling(self, value: Any, call_id: object) -> Ruling:
        """Return the ruling on what the server wants the client's model to be asked."""
        return await self.calls.aprompt(cast("str", _text(value)), self.at(call_id))


def _text(value: Any) -> str | None:
    """Return what a model would read; None, which no guard lets pass, if it is too much."""
    try:
        return texts_in(readable(value))
    except InputError:
        return None


def judge_of(gate: Gate | None, server: str, rules: Rules) -> Judge:
    """Return who judges for a server; without a gate, guards alone do, and nothing is stored."""

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
