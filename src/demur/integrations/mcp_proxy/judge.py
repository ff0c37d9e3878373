"""Guards and gate for one MCP server: checks of calls, results, texts and offered lists.

A model reads tools, prompts and resources before anything is called. A refused entry is left out
of its list, and the operator is notified.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.describe import describe_call, extract_texts
from demur.enforce.enforcer import Enforcer
from demur.enforce.opening import build_enforcer
from demur.enforce.result import CheckResult
from demur.enforce.tool_effects import find_file_accesses
from demur.errors import DemurError, InputError
from demur.gate.gate import Gate
from demur.gate.guard_settings import GuardSettings
from demur.gate.pipeline import GuardPipeline
from demur.guards.code_execution.event import FileRequest
from demur.guards.retrieval import RetrievedPassage
from demur.guards.tool_call import ToolConfig
from demur.guards.tool_manifest import MAX_NAME_LENGTH
from demur.integrations._kit import is_changed_fully
from demur.integrations.mcp_proxy.content import readable_content
from demur.integrations.mcp_proxy.definitions import (
    DefinitionGuard,
    OfferedTool,
    ToolPins,
    parse_tool,
)
from demur.integrations.mcp_proxy.jsonrpc import OpenRequest, find_look_alikes

FRAMEWORK = "mcp-proxy"
# The recorded action for offered prompts and resources.
LISTING_ACTION = "mcp.listing"
READING_METHOD = "resources/read"
# Calls and what they return can be changed; what a server says unasked cannot.
CARRIED = frozenset({Surface.TOOL_CALL, Surface.TOOL_RESULT})
_WARM_UP_TEXT = "ordinary words"
_SURFACES = (
    Surface.INPUT,
    Surface.TOOL_CALL,
    Surface.TOOL_RESULT,
    Surface.RETRIEVAL,
    Surface.CODE_EXECUTION,
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
    the session where a server has several: loops are detected within one session, and not at all
    if the name is empty.
    """

    server: str
    calls: Enforcer
    definitions: Enforcer
    pinned: bool = False
    run: str | None = None

    def context(self, call_id: object = None) -> CallContext:
        """Return the call context of this server."""
        identity = None if call_id is None else str(call_id)[:256]
        run = self.server if self.run is None else f"{self.server}/{self.run}" if self.run else None
        return CallContext(framework=FRAMEWORK, run=run, call_id=identity)

    def warm_up(self) -> None:
        """Have guards compile their rules now, so that the first call is not slow."""
        for surface in (Surface.RETRIEVAL, Surface.TOOL_CALL, Surface.TOOL_RESULT):
            self.calls.pipeline.warm_up(surface, _WARM_UP_TEXT)

    async def check_tool(self, tool: OfferedTool) -> CheckResult:
        """Return the result for an offered tool; its name is the action."""
        surface, context = Surface.TOOL_CALL, self.context()
        return await self.definitions.acheck_event(surface, tool, context, action=tool.name)

    async def check_call(
        self, name: str, arguments: Mapping[str, Any], known: JudgedTool | None, call_id: object
    ) -> CheckResult:
        """Return the result for a call; `known` is the tool that is offered by that name."""
        context = self.context(call_id)
        if known is not None and not known.trusted:
            chosen, surface = replace(known.tool, called=True), Surface.TOOL_CALL
            result = await self.definitions.acheck_event(surface, chosen, context, action=name)
            if not result.allowed:
                return result
        # A pin covers the schema, and a person has agreed to the rest.
        shown = None if known is None or self.pinned else known.tool.tool
        return await self.calls.acheck_tool_call(
            name, arguments, context, tool=shown, source=self.server
        )

    async def check_resource(self, params: Mapping[str, Any], call_id: object) -> CheckResult:
        """Return the result for reading a resource: a `file:` address is judged as a path."""
        accesses = tuple(find_file_accesses("read", params))
        event = FileRequest(text="\n".join(one.path for one in accesses), accesses=accesses)
        return await self.calls.acheck_event(
            Surface.CODE_EXECUTION, event, self.context(call_id), action=READING_METHOD
        )

    async def check_result(
        self, name: str, value: Any, arguments: Mapping[str, Any] | None, call_id: object
    ) -> CheckResult:
        """Return the result for what a tool returned."""
        parts = (name, readable_content(value), self.context(call_id))
        result = await self.calls.acheck_tool_result(*parts, arguments=arguments)
        if is_changed_fully(result, readable_content(result.apply_changes(value))):
            return result
        # Encoded content cannot be changed.
        return await self.calls.refuse_changes().acheck_tool_result(*parts, arguments=arguments)

    async def check_passage(
        self, value: Any, source: str, action: str, call_id: object = None
    ) -> CheckResult:
        """Return the result for content of the server that a model reads."""
        text = _readable_text(value)
        event = None if text is None else RetrievedPassage(text, source)
        context = self.context(call_id)
        return await self.calls.acheck_event(Surface.RETRIEVAL, event, context, action=action)

    async def check_sampling(self, value: Any, call_id: object) -> CheckResult:
        """Return the result for a sampling request of the server."""
        text = cast("str", _readable_text(value))
        return await self.calls.acheck_prompt(text, self.context(call_id))


def _readable_text(value: Any) -> str | None:
    """Return the text that a model would read; None, which guards refuse, if it is too much."""
    try:
        return extract_texts(readable_content(value))
    except InputError:
        return None


def make_judge(
    gate: Gate | None,
    server: str,
    rules: ProxyRules,
    guards: GuardSettings | None = None,
    **settings: Any,
) -> ProxyJudge:
    """Return the judge of a server; without a gate only guards judge, and nothing is stored.

    `settings` are those of `build_enforcer` for calls.
    """

    def describe_on_server(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**describe_call(name, arguments), "trace": {"server": server}}

    def add_rules(config: ToolConfig) -> ToolConfig:
        manifest = config.manifest if rules.pins is None else rules.pins.manifest
        allow = config.allow if rules.allow is None else tuple(rules.allow)
        return replace(config, manifest=manifest, allow=allow, deny=(*config.deny, *rules.deny))

    calls = build_enforcer(
        gate,
        guards,
        surfaces=(*_SURFACES, Surface.TOOL_LOOP) if rules.loops else _SURFACES,
        changes={Surface.TOOL_CALL: add_rules},
        describe=describe_on_server,
        carried=CARRIED,
        **settings,
    )
    # Definitions are judged by the settings of the guard of calls.
    [own] = [step for step in calls.pipeline.steps if isinstance(step.config, ToolConfig)]
    step = own._replace(guard=DefinitionGuard(rules.pins), name="tool_definition")
    codes, registry = calls.pipeline.shadow_codes, calls.registry
    definitions = GuardPipeline([step], registry=registry, shadow_codes=codes)
    offered = Enforcer(gate, pipeline=definitions)
    return ProxyJudge(server, calls, offered, pinned=rules.pins is not None)


# The member of each result that holds the entries.
LIST_MEMBERS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_MAX_KNOWN_TOOLS = 10_000

# Gets one line about each action of the proxy.
Notify = Callable[[str], None]


class ListFilter:
    """Filters offered entries, and keeps the tools as offered last."""

    def __init__(self, judge: ProxyJudge, notify: Notify) -> None:
        self._judge = judge
        self._notify = notify
        self._judged_tools: dict[str, JudgedTool] = {}
        self._first_offers: dict[str, OfferedTool] = {}

    def find_tool(self, name: str) -> JudgedTool | None:
        """Return the tool that is offered by a name, or None."""
        return self._judged_tools.get(name)

    async def filter_list(self, request: OpenRequest, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a list without refused entries; or the same object."""
        member = LIST_MEMBERS[request.method]
        entries = result[member]
        if member == "tools":
            kept = await self._keep_tools(entries, is_continued="cursor" in request.params)
        else:
            kept = await self._keep_texts(entries)
        return result if len(kept) == len(entries) else {**result, member: kept}

    async def _keep_tools(self, entries: list[Any], *, is_continued: bool) -> list[Any]:
        if len(self._judged_tools) + len(entries) > _MAX_KNOWN_TOOLS:
            self._notify(f"left out a list: the server offers more than {_MAX_KNOWN_TOOLS} tools")
            return []
        judged = [await self._judge_tool(entry) for entry in entries]
        for known in filter(None, judged):
            if known.trusted:
                self._first_offers.setdefault(known.tool.name, replace(known.tool, first=None))
        listed: dict[str, JudgedTool] = {}
        for known in filter(None, judged):
            name = known.tool.name
            before = listed.get(name) or (self._judged_tools.get(name) if is_continued else None)
            # A call could mean either of two tools with one name, so an untrusted one wins.
            listed[name] = known if before is None or before.trusted else before
        self._judged_tools |= listed
        return [
            entry
            for entry, known in zip(entries, judged, strict=True)
            if known is not None and listed[known.tool.name].trusted
        ]

    async def _judge_tool(self, entry: Any) -> JudgedTool | None:
        """Return a tool with whether it is trusted; None for one without a name."""
        try:
            tool = parse_tool(entry, self._judge.server)
        except DemurError as error:
            name = entry.get("name") if isinstance(entry, dict) else None
            self._notify(f"a tool of the server cannot be read: {error.problem}")
            if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH:
                return None
            tool = OfferedTool(name=name, source=self._judge.server)
        first = self._first_offers.get(tool.name)
        if first is not None and first != tool:
            tool = replace(tool, first=first)
        before = self._judged_tools.get(tool.name)
        if before is not None and before.tool == tool:
            return before
        result = await self._judge.check_tool(tool)
        if not result.allowed:
            self._notify(f"hid the tool `{tool.name}`: {result.line}")
        return JudgedTool(tool, trusted=result.allowed)

    async def _keep_texts(self, entries: list[Any]) -> list[Any]:
        kept = []
        for entry in entries:
            result = await self._judge.check_passage(entry, "listing", LISTING_ACTION)
            if result.allowed:
                kept.append(entry)
            else:
                name = entry.get("name") if isinstance(entry, dict) else None
                self._notify(f"hid an entry named `{str(name)[:80]}`: {result.line}")
        return kept


def drop_look_alikes(
    result: dict[str, Any], members: Collection[str], notify: Notify
) -> dict[str, Any]:
    """Return a result without members that differ from a known one only in case."""
    strange = find_look_alikes(result, members)
    for name in strange:
        meant = next(one for one in members if one.casefold() == name.casefold())
        notify(f"left out `{name}`, which differs from `{meant}` only in case")
    if not strange:
        return result
    return {name: item for name, item in result.items() if name not in strange}
