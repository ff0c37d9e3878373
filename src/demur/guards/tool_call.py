"""The tool-call guard: check a call against pins, lists and rules, without making it.

Codes, and when:
UNVERIFIED_TOOL: the tool was never pinned, its definition or server is not the pinned one, or
its name passes for that of a pinned tool.
TOOL_NOT_ALLOWED: the tool, or an argument, is outside what is permitted; so are arguments that
do not fit the schema, because the schema is the list of permitted arguments.
CONTEXT_MISSING: an argument that the schema requires was not given.
EGRESS_DENIED, UNAPPROVED_DESTRUCTION, RCE_RISK: an argument rule saw an inner address, SQL that
sweeps, or SQL that reaches a program or file on the machine of the database.
SECRET_LEAK, EXFILTRATION_RISK: a credential stands in an argument, or is on its way out.
CONTEXT_INJECTION: the definition speaks to the model (tool poisoning).

Limits: names are not resolved and links not followed (see `network_address`, `argument_rules`);
shell commands and code in arguments belong to the guard of the surface `code_execution`. A span
is a place in the text that the evidence names: under `argument` for arguments, under `field`
for the definition, and in the tool's name otherwise.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

import msgspec
import re2

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.argument_rules import (
    DEFAULT_ARGUMENT_RULES,
    ArgumentRule,
    TrustedTargets,
    apply_rule,
)
from demur.guards.network_address import find_addresses, is_within_domains
from demur.guards.rule_matching import find_text_findings
from demur.guards.secret_formats import FORMATTED_SECRETS, PRIVATE_KEYS
from demur.guards.secret_values import ASSIGNED_SECRETS
from demur.guards.text_rules import RuleSet, builtin_rules
from demur.guards.text_search import TextMatch, make_ascii_view, search_view
from demur.guards.tool_arguments import (
    ArgumentPart,
    SchemaViolation,
    UnreadableArgumentsError,
    find_texts,
    find_violations,
    read_arguments,
)
from demur.guards.tool_manifest import (
    ToolDefinition,
    ToolManifest,
    check_identity,
    clip_evidence,
    find_look_alike,
    find_pinned,
    name_skeleton,
    normalize_schema,
    shorten_name,
    tool_finding,
)
from demur.model.finding import Action, Finding, Span

_MAX_EXCERPT = 100
_MAX_SCHEMA_TEXT = 1_000_000
# Tag characters spell out an invisible text, unless a flag goes before them; overrides change
# the direction of writing, so that a person reads something else than the model.
_HIDDEN = re.compile(
    "(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0001\U000e0020-\U000e007f]{2,}"
    "|[\u202a-\u202e\u2066-\u2069]|[\u200b\u2060-\u2064]{3,}"
)


def find_poison(tool: ToolDefinition, rules: RuleSet) -> Iterator[Finding]:
    """Yield findings for text in `tool` that is meant for the model and not for a person.

    The evidence says under `field` which text the span is in.
    """
    source = {"source": "tool definition", "tool": tool.name[:100]}
    for field, text in _definition_texts(tool):
        for found in find_text_findings(text, rules, Surface.TOOL_CALL):
            assert found.span is not None
            excerpt = text[found.span.start : found.span.end][:_MAX_EXCERPT]
            evidence = {**found.evidence, "excerpt": excerpt, **source, "field": field}
            yield msgspec.structs.replace(found, evidence=evidence)
        for hidden in _HIDDEN.finditer(text):
            yield Finding(
                code=ReasonCode.CONTEXT_INJECTION,
                surface=Surface.TOOL_CALL,
                span=Span(start=hidden.start(), end=hidden.end()),
                detail="the tool's text holds characters that nobody can see",
                evidence={"rule": "TOOL_HIDDEN_TEXT", **source, "field": field},
            )


def _definition_texts(tool: ToolDefinition) -> Iterator[ArgumentPart]:
    size = 0
    yield ArgumentPart("name", tool.name)
    yield ArgumentPart("description", tool.description)
    for part in find_texts(ArgumentPart("schema", tool.schema)):
        # Types, references and single words give no orders.
        if " " in part.value or len(part.value) > 40:
            size += len(part.value)
            if size > _MAX_SCHEMA_TEXT:
                raise InputError("the schema holds too much text", where=tool.name[:40])
            yield part


_SECRETS = (PRIVATE_KEYS, FORMATTED_SECRETS, ASSIGNED_SECRETS)
_SEARCHES = tuple(search.search_ascii for search in _SECRETS if search.search_ascii)
_MAIL = re2.compile(r"(?i)[a-z0-9._%+\-]{1,64}@([a-z0-9\-]{1,63}(?:\.[a-z0-9\-]{1,63}){1,8})")
_MIN_LENGTH = 8


def _check_secrets(tool: str, values: dict[str, Any], trust: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a finding for each credential; hosts below `trust` may have them."""
    parts = list(find_texts(ArgumentPart("", values)))
    leaks = [(part.place, match) for part in parts for match in _search_part(part)]
    hosts = list(_public_hosts(parts)) if leaks else []
    foreign = next((host for host in hosts if not is_within_domains(host, trust)), None)
    for place, match in leaks:
        code, action = match.code, match.action
        facts = {**match.evidence, "argument": place, "location": place}
        if hosts:
            facts |= {"destination": (foreign or hosts[0])[:100], "channel": clip_evidence(tool)}
        if foreign is not None:
            code, facts["data"] = ReasonCode.EXFILTRATION_RISK, "credential"
        elif hosts:
            action = Action.WARN
        rule, detail = "SECRET_IN_ARGUMENT", f"`{shorten_name(place)}` holds a credential"
        span = Span(start=match.start, end=match.end)
        yield tool_finding(tool, code, rule, detail, facts, action=action, span=span)


def _search_part(part: ArgumentPart) -> list[TextMatch]:
    text = part.value
    if len(text) < _MIN_LENGTH:
        return []
    view = make_ascii_view(text)
    matches = {
        (each.start, each.end): each
        for search in _SEARCHES
        for each in search_view(view, search, text, 0, final=True).matches
    }
    # The argument's name can mark its value as a secret: `{"api_key": "…"}`.
    name = part.place.rpartition(".")[2]
    if not matches and " " not in text and not name.isdecimal():
        lead = f"{name}="
        for each in ASSIGNED_SECRETS.search(lead + text, 0, True).matches:
            start, end = max(0, each.start - len(lead)), each.end - len(lead)
            matches[start, end] = each._replace(start=start, end=end)
    return [matches[span] for span in sorted(matches)]


def _public_hosts(parts: list[ArgumentPart]) -> Iterator[str]:
    """Yield the public hosts that the call names."""
    for part in parts:
        for address in find_addresses(part.value):
            if address.reach == "public":
                yield address.host
        if "@" in part.value:
            plain = part.value.encode("utf-8", "replace").decode()
            yield from (found[1].casefold() for found in _MAIL.finditer(plain))


SURFACE = Surface.TOOL_CALL
CODES = (
    ReasonCode.CONTEXT_INJECTION,
    ReasonCode.CONTEXT_MISSING,
    ReasonCode.EGRESS_DENIED,
    ReasonCode.EXFILTRATION_RISK,
    ReasonCode.RCE_RISK,
    ReasonCode.SECRET_LEAK,
    ReasonCode.TOOL_NOT_ALLOWED,
    ReasonCode.UNAPPROVED_DESTRUCTION,
    ReasonCode.UNVERIFIED_TOOL,
)

_MAX_VIOLATIONS = 20
_MAX_NAME = 10_000


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call, before it runs.

    `arguments` are values or the JSON text that the model wrote; `tool` is the definition as its
    server presents it now, where the host has it; `source` names that server.
    """

    name: str
    arguments: Mapping[str, Any] | str = {}
    tool: ToolDefinition | None = None
    source: str = ""

    def __post_init__(self) -> None:
        for field in ("name", "source"):
            value = getattr(self, field)
            if not isinstance(value, str):
                raise InputTypeError.wrong_type(field, "a string", value)
            if len(value) > _MAX_NAME:
                raise InputError(f"`{field}` has more than {_MAX_NAME} characters")


class ToolConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The pinned, permitted and forbidden tools and arguments.

    Without a manifest nothing is compared with pins, and without `allow` every tool is permitted.
    `allow` and `deny` hold names or patterns such as `read_*`; `deny` wins. `workspace` are the
    folders that paths may lead to, `trusted_hosts` the domains that may be sent credentials.
    """

    manifest: ToolManifest | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    argument_rules: tuple[ArgumentRule, ...] = DEFAULT_ARGUMENT_RULES
    workspace: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    find_secrets: bool = True
    text_rules: RuleSet | None = None


def check(event: ToolCall, config: ToolConfig) -> Iterator[Finding]:
    """Yield the findings about a call."""
    if not isinstance(event, ToolCall):
        raise InputTypeError.wrong_type("the event", "a `ToolCall`", event)
    if config.manifest is not None:
        yield from check_identity(event.name, event.source, event.tool, config.manifest)
    yield from _check_lists(event.name, config)
    yield from _check_arguments(event, config)
    if event.tool is not None:
        yield from check_definition(event.tool, config)


def check_definition(tool: ToolDefinition, config: ToolConfig) -> Iterator[Finding]:
    """Yield the findings in the texts of a definition; use it before pinning."""
    plain = msgspec.structs.replace(tool, schema=normalize_schema(tool.schema))
    yield from find_poison(plain, config.text_rules or builtin_rules(SURFACE))


def _check_lists(name: str, config: ToolConfig) -> Iterator[Finding]:
    bones = name_skeleton(name)
    for pattern in config.deny:
        # A host that matches names loosely must not bypass the list.
        if fnmatchcase(name, pattern) or fnmatchcase(bones, name_skeleton(pattern)):
            detail = f"`{shorten_name(name)}` is on the deny-list"
            yield _list_finding(name, "TOOL_DENIED", detail, {"pattern": pattern})
            break
    if config.allow is not None and not any(fnmatchcase(name, each) for each in config.allow):
        facts: dict[str, Any] = {"allowed": list(config.allow[:20])}
        if near := find_look_alike(name, config.allow):
            facts["looks_like"] = near
        detail = f"`{shorten_name(name)}` is not on the allow-list"
        yield _list_finding(name, "TOOL_NOT_LISTED", detail, facts)


def denied_tool_finding(name: str) -> Finding:
    """Return the finding for a tool that settings deny."""
    detail = f"`{shorten_name(name)}` is on the deny-list"
    return _list_finding(name, "TOOL_DENIED", detail, {"pattern": name})


def _list_finding(name: str, rule: str, detail: str, facts: dict[str, Any]) -> Finding:
    span = Span(start=0, end=len(name))
    return tool_finding(name, ReasonCode.TOOL_NOT_ALLOWED, rule, detail, facts, span=span)


def _check_arguments(event: ToolCall, config: ToolConfig) -> Iterator[Finding]:
    try:
        arguments = read_arguments(event.arguments)
    except UnreadableArgumentsError as error:
        code = ReasonCode.TOOL_NOT_ALLOWED
        yield tool_finding(event.name, code, "ARGUMENTS_UNREADABLE", error.problem, {})
        return
    schema = _effective_schema(event, config)
    for violation in islice(find_violations(arguments, schema), _MAX_VIOLATIONS):
        yield _violation_finding(event.name, violation)
    yield from _check_rules(event.name, arguments, config)
    if config.find_secrets:
        yield from _check_secrets(event.name, arguments, config.trusted_hosts)


def _effective_schema(event: ToolCall, config: ToolConfig) -> Mapping[str, Any]:
    """Return the schema that the arguments must fit: the pinned one, or else the one shown."""
    if config.manifest is not None:
        pinned = find_pinned(event.name, event.source, config.manifest)
        if pinned is not None and pinned.schema is not None:
            return pinned.schema
    return {} if event.tool is None else normalize_schema(event.tool.schema)


def _violation_finding(tool: str, violation: SchemaViolation) -> Finding:
    where = f"`{shorten_name(violation.place)}`" if violation.place else "the object"
    facts: dict[str, Any] = {"argument": violation.place, "keyword": violation.keyword}
    code, rule = ReasonCode.TOOL_NOT_ALLOWED, f"SCHEMA_{violation.keyword.strip('$').upper()}"
    if not violation.judged:
        detail, rule = f"`{violation.keyword}` of the schema was not judged", "SCHEMA_NOT_JUDGED"
        return tool_finding(tool, code, rule, detail, facts, action=Action.WARN)
    detail = f"{where} {violation.problem}"
    if violation.keyword == "required":
        code = ReasonCode.CONTEXT_MISSING
        facts["missing"] = violation.allowed[:20]
        detail = f"{where} lacks {', '.join(map(shorten_name, violation.allowed[:2]))}"
    elif violation.allowed is not None:
        facts["allowed"] = violation.allowed
    return tool_finding(tool, code, rule, detail, facts)


def _check_rules(tool: str, arguments: dict[str, Any], config: ToolConfig) -> Iterator[Finding]:
    trust = TrustedTargets(config.workspace, config.trusted_hosts)
    for rule in config.argument_rules:
        for place, span, problem, evidence in apply_rule(rule, tool, arguments, trust):
            detail, facts = f"`{shorten_name(place)}` {problem}", {"argument": place, **evidence}
            action = rule.action
            yield tool_finding(tool, rule.reason, rule.id, detail, facts, action=action, span=span)
