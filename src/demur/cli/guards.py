"""`demur guard`: run the guards of a surface on a text or an event; list guards and rules."""

import json
import sys
from argparse import Namespace
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import STANDARD_INPUT, add_registry_option, parse_json, read_input
from demur.cli.terminal import Paint, format_table, paint_outcome, print_error, wrap_text
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_existing_store,
)
from demur.codes.loading import default_registry
from demur.codes.meaning import ADVICE_MEANING
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import build_result, decide_by_findings
from demur.errors import DemurError, InputError, Problem, one_line, shorten
from demur.gate.clock import system_clock
from demur.gate.config import CONFIG_NAME, Config, find_config, load_config
from demur.gate.guard_pipeline import build_pipeline
from demur.gate.guard_settings import CONFIGURED_SURFACES, GuardSettings
from demur.gate.monitor import (
    GuardrailMonitor,
    GuardReport,
    GuardThresholds,
    build_guard_report,
    count_findings,
)
from demur.guards.builtin import (
    BUILTIN,
    check,
    find_builtin,
    load_builtin,
    parse_event,
    read_config,
)
from demur.guards.contract import event_text, find_installed
from demur.guards.rule_matching import check_rows
from demur.guards.sarif import to_sarif
from demur.guards.text_rules import RuleSet, add_languages, builtin_rules, load_rules
from demur.model.finding import Action, Finding
from demur.policy.evaluation import finding_blocks
from demur.service.sample import SAMPLE_TENANT
from demur.source import SourceError, read_source

MAX_EVENT_BYTES = 100_000_000
_MAX_QUESTION = 200
# The surfaces whose guards use text rules.
_RULED_SURFACES = frozenset(
    {Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT}
    | {Surface.RETRIEVAL, Surface.COMPACTION}
)
# The surfaces whose guards check a tool call besides those of `tool_call`.
_RUN_BY_CALLS = (Surface.CODE_EXECUTION,)
# The formats of settings of one guard.
_GUARD_SUFFIXES = (".yaml", ".yml", ".json")


class EventFile(NamedTuple):
    """An event, and the name of its source."""

    where: str
    event: Any
    replaced: bool


def read_event_file(surface: Surface, name: str, *, as_json: bool) -> EventFile:
    """Return the event in the file `name`; `-` is standard input.

    Raises:
        InputError: It cannot be read, is too large, or is not an event of the surface.
        UsageError: It is empty.
    """
    where, raw = read_input(name, "the event" if as_json else "the text", MAX_EVENT_BYTES + 1)
    if len(raw) > MAX_EVENT_BYTES:
        problem = f"more than {MAX_EVENT_BYTES} bytes"
        raise InputError(problem, where=where, help="split it into parts")
    text = raw.decode("utf-8", "replace")
    if not text.strip():
        help_text = "give the event as JSON" if as_json else "give the text to check"
        raise UsageError("there is nothing to check", where=where, help=help_text)
    replaced = "\N{REPLACEMENT CHARACTER}" in text and text.encode() != raw
    value = parse_json(text, where) if as_json else text
    try:
        return EventFile(where, parse_event(surface, value), replaced)
    except DemurError as error:
        place = f"{where}: {error.where}" if error.where else where
        raise InputError(error.problem, where=place, help=error.help) from error


def read_guard_config(surface: Surface, path: str) -> dict[str, Any]:
    """Return the settings of one guard in a YAML or JSON file.

    Raises:
        InputError: The settings are invalid.
    """
    fields = _read_mapping(path)
    try:
        read_config(surface, fields)
    except DemurError as error:
        place = f"{path}: {error.where}" if error.where else path
        raise InputError(error.problem, where=place, help=error.help) from error
    return fields


def load_guard_settings(args: Namespace, surface: Surface) -> tuple[GuardSettings, Registry]:
    """Return the settings of guards for a command, and the registry.

    They are those of the settings file, if there is one, and of the options.

    Raises:
        UsageError: `--config` names the settings of one guard.
        InputError: The settings are invalid.
    """
    path: Path | None = args.config or find_config()
    if path is not None and path.suffix in _GUARD_SUFFIXES:
        problem = f"--config names the settings file, like {CONFIG_NAME}"
        help_text = f"pass the settings of one guard with --guard-config {path}"
        raise UsageError(problem, where=str(path), help=help_text)
    config = Config() if path is None else load_config(path)
    registry = default_registry(*config.registries, *args.registry)
    added, replacing = getattr(args, "rules", ()), getattr(args, "replace_rules", ())
    for name in (*added, *replacing):
        found = load_rules(name, registry=registry).surface
        if found is not surface:
            problem = f"these are rules for `{found}`, not for `{surface}`"
            raise InputError(problem, where=name)
    guards = config.guards
    if args.guard_config is not None and surface in CONFIGURED_SURFACES:
        guards = guards.with_fields(surface, read_guard_config(surface, args.guard_config))
    return msgspec.structs.replace(
        guards,
        rules=(*guards.rules, *added),
        replace_rules=(*guards.replace_rules, *replacing),
    ), registry


def _read_mapping(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
        value = read_source(path, text).plain_value
    except SourceError as error:
        first = error.problems[0]
        raise InputError(first.problem, where=first.where, help=first.help) from error
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise InputError(f"cannot read the settings: {reason}", where=path) from error
    if not isinstance(value, dict):
        raise InputError("settings must be a mapping", where=path, help="like `longest: 1000`")
    return value


_ACTION_COLOURS = {Action.BLOCK: "red", Action.ESCALATE: "yellow", Action.WARN: "cyan"}
# The evidence fields that name the part of an event in which a span lies.
_PART_FIELDS = ("argument", "field", "message")


class LocatedFinding(NamedTuple):
    """A finding with its place: line and column in a text, or the name of a part."""

    finding: Finding
    line: int | None
    column: int | None
    part: str

    @property
    def as_json(self) -> dict[str, Any]:
        """The finding as plain JSON, with its place."""
        row: dict[str, Any] = msgspec.to_builtins(self.finding)
        return row if self.line is None else {**row, "line": self.line, "column": self.column}

    @property
    def with_location(self) -> Finding:
        """The finding with its line and column in the evidence, for SARIF."""
        if self.line is None:
            return self.finding
        evidence = {**self.finding.evidence, "line": self.line, "column": self.column}
        return msgspec.structs.replace(self.finding, evidence=evidence)


class GuardOutcome(NamedTuple):
    """The outcome of a check: one word for scripts, and the exit status."""

    word: str
    status: int


def judge_findings(findings: Sequence[Finding], registry: Registry) -> GuardOutcome:
    """Return the outcome of the findings; mere warnings block nothing."""
    if any(f.action is Action.BLOCK and registry[f.code].decided for f in findings):
        return GuardOutcome("block", 3)
    if any(not registry[f.code].decided for f in findings):
        return GuardOutcome("unjudged", 6)
    if any(f.action is Action.ESCALATE or _blocks(f, registry) for f in findings):
        return GuardOutcome("escalate", 4)
    return GuardOutcome("warn" if findings else "pass", 0)


def _blocks(finding: Finding, registry: Registry) -> bool:
    """Return whether a finding blocks: some warnings do."""
    return finding_blocks(finding.code, finding.action, registry)


def locate_findings(findings: Sequence[Finding], event: object) -> list[LocatedFinding]:
    """Return the findings with their places in the event's text, if it has one."""
    text = event_text(event)
    starts = [0]
    if text is not None:
        starts += [at + 1 for at, character in enumerate(text) if character == "\n"]
    return [_locate_finding(finding, starts if text is not None else None) for finding in findings]


def _locate_finding(finding: Finding, starts: list[int] | None) -> LocatedFinding:
    if finding.span is None or starts is None:
        named = [str(finding.evidence[name]) for name in _PART_FIELDS if finding.evidence.get(name)]
        return LocatedFinding(finding, None, None, named[0] if named else "")
    line = bisect_right(starts, finding.span.start)
    return LocatedFinding(finding, line, finding.span.start - starts[line - 1] + 1, "")


def print_findings(found: Sequence[LocatedFinding], where: str, registry: Registry) -> None:
    """Print the outcome of the findings, each of them, and how many there are of each kind."""
    paint = Paint()
    findings = [one.finding for one in found]
    if findings:
        outcome = build_result(findings[0].surface, findings, None, registry=registry).outcome
        print(f"{paint_outcome(outcome, paint)}, if nothing but guards decides")
    for one in found:
        finding = one.finding
        label = paint(f"{finding.action}[{finding.code}]", "bold", _ACTION_COLOURS[finding.action])
        detail = one_line(finding.detail or registry[finding.code].summary)
        rule = finding.evidence.get("rule")
        named = paint(f" ({one_line(str(rule))})", "dim") if rule else ""
        place = f"{where}: {one.part}" if one.part else where
        place = place if one.line is None else f"{where}:{one.line}:{one.column}"
        print(f"{one_line(place)}: {label} {detail}{named}")
        help_text = _help_for(finding, registry)
        if help_text:
            print(f"  {paint('help:', 'cyan')} {help_text}")
    counts = Counter(one.finding.action for one in found)
    summary = ", ".join(f"{counts[action]} {action}" for action in Action if counts[action])
    if set(counts) == {Action.WARN} and not any(_blocks(one, registry) for one in findings):
        summary += ": warnings block nothing"
    print(paint(summary or "nothing found", "dim"))


def _help_for(finding: Finding, registry: Registry) -> str | None:
    """Return what to do about a finding that blocks: what a refusal of it alone would say."""
    if not _blocks(finding, registry):
        return None
    question = finding.evidence.get("question")
    if isinstance(question, str) and question:
        return f"Ask: {one_line(shorten(question, _MAX_QUESTION))}"
    advice = decide_by_findings([finding], registry).next_step
    return None if advice is None else ADVICE_MEANING[advice]


class SurfaceCommand:
    """The command of one surface."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._takes_text = find_builtin(surface).text not in {None, "name"}

    def configure(self, add: Arguments) -> None:
        """Add the command's arguments."""
        what = "the text to check" if self._takes_text else "the event to check, as JSON"
        add("file [FILE]", f"{what}; `-` is standard input", default=STANDARD_INPUT)
        if self._takes_text:
            add("--event", "read an event as JSON instead of text")
        if self._surface in _RULED_SURFACES:
            add("--rules FILE ...", "add the text rules in this file to the built-in; repeatable")
            add("--replace-rules FILE ...", "use these rules instead of the built-in; repeatable")
        add("--guard-config FILE", "further settings of this guard, as YAML or JSON")
        add_config_option(add)
        add_registry_option(add)
        form = add.either()
        form("--json", "one JSON object")
        form("--sarif", "a SARIF 2.1.0 log")

    def run(self, args: Namespace) -> int:
        """Print the findings, and return the status of the outcome."""
        settings, registry = load_guard_settings(args, self._surface)
        as_json = not self._takes_text or args.event
        read = read_event_file(self._surface, args.file, as_json=as_json)
        if read.replaced:
            print(
                f"note: {read.where} is not valid UTF-8; invalid bytes were replaced",
                file=sys.stderr,
            )
        findings = self._find(read.event, args, settings, registry)
        found = locate_findings(findings, read.event)
        outcome = judge_findings(findings, registry)
        if args.json:
            rows = [one.as_json for one in found]
            head = {"surface": self._surface, "outcome": outcome.word, "status": outcome.status}
            print(json.dumps({**head, "findings": rows}, indent=2))
        elif args.sarif:
            located = [one.with_location for one in found]
            artifact = None if args.file == STANDARD_INPUT else args.file
            print(json.dumps(to_sarif(located, registry=registry, artifact=artifact), indent=2))
        else:
            print_findings(found, read.where, registry)
        return outcome.status

    def _find(
        self, event: Any, args: Namespace, settings: GuardSettings, registry: Registry
    ) -> list[Finding]:
        surface = self._surface
        if surface is Surface.RATE:
            # Its event holds the limit and the state, so nothing is counted here.
            path = args.guard_config
            return check(surface, event, path and read_guard_config(surface, path))
        surfaces = (surface, *_RUN_BY_CALLS) if surface is Surface.TOOL_CALL else (surface,)
        pipeline = build_pipeline(
            msgspec.structs.replace(settings, limits=()), *surfaces, registry=registry
        )
        return Enforcer(pipeline=pipeline, commands=settings.commands).run_guards(surface, event)


INPUT = SurfaceCommand(Surface.INPUT)
OUTPUT = SurfaceCommand(Surface.OUTPUT)
TOOL_CALL = SurfaceCommand(Surface.TOOL_CALL)
TOOL_LOOP = SurfaceCommand(Surface.TOOL_LOOP)
TOOL_RESULT = SurfaceCommand(Surface.TOOL_RESULT)
RETRIEVAL = SurfaceCommand(Surface.RETRIEVAL)
COMPACTION = SurfaceCommand(Surface.COMPACTION)
CODE_EXECUTION = SurfaceCommand(Surface.CODE_EXECUTION)
RATE = SurfaceCommand(Surface.RATE)


class _GuardRow(NamedTuple):
    name: str
    surface: str
    source: str
    codes: tuple[str, ...]
    problems: tuple[Problem, ...] = ()


def configure_guard_list(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--json", "a list of JSON objects")


def run_guard_list(args: Namespace) -> int:
    """Print the guards; 1 if one of them is not usable."""
    rows = list(_list_guards())
    if args.json:
        listed = [
            {**row._asdict(), "problems": [one._asdict() for one in row.problems]} for row in rows
        ]
        print(json.dumps(listed, indent=2))
    else:
        paint = Paint()
        usable = [row for row in rows if not row.problems]
        for row in usable:
            source = "" if row.source == "built in" else f" ({row.surface}, from {row.source})"
            print(f"{paint(one_line(row.name), 'bold')}{one_line(source)}")
            print(wrap_text(", ".join(row.codes), "  "))
        for row in rows:
            for problem in row.problems:
                print_error(paint, problem._replace(help=None))
        installed = sum(row.source != "built in" for row in usable)
        broken = sum(bool(row.problems) for row in rows)
        count = f"{len(usable)} guards, {installed} of them installed"
        print(paint(f"{count}; {broken} cannot be used" if broken else count, "dim"))
    return int(any(row.problems for row in rows))


def _list_guards() -> Iterator[_GuardRow]:
    for builtin in BUILTIN:
        guard = load_builtin(builtin.surface)
        codes = tuple(map(str, guard.CODES))
        yield _GuardRow(str(builtin.surface), str(builtin.surface), "built in", codes)
    for one in find_installed():
        if one.guard is None:
            yield _GuardRow(one.name, "", one.package, (), one.problems)
        else:
            codes = tuple(map(str, one.guard.CODES))
            yield _GuardRow(one.name, str(one.guard.SURFACE), one.package, codes)


def configure_guard_rules(add: Arguments) -> None:
    """Add the command's arguments."""
    add("surface SURFACE", choices=[str(surface) for surface in Surface])
    add("--rules FILE", "a rule file; default: the built-in rules")
    add_registry_option(add)
    add("--json", "one JSON object")


def run_guard_rules(args: Namespace) -> int:
    """Print the rules and their problems; 1 if there are any."""
    if args.rules is None:
        rules = builtin_rules(args.surface)
    else:
        rules = load_rules(args.rules, registry=default_registry(*args.registry))
    if rules.surface != args.surface:
        problem = f"these are rules for `{rules.surface}`, not for `{args.surface}`"
        raise InputError(problem, where=args.rules)
    problems = check_rows(rules)
    if args.json:
        print(json.dumps(_rules_to_json(rules, problems), indent=2))
    else:
        _print_rules(rules, problems, Paint())
    return int(bool(problems))


def _rules_to_json(rules: RuleSet, problems: Sequence[Problem]) -> dict[str, Any]:
    listed = [
        {
            "id": rule.id,
            "code": rule.code,
            "action": rule.action,
            "description": rule.description,
            "width": rule.width,
            "refuse": list(rule.refuse),
            "allow": list(rule.allow),
        }
        for rule in add_languages(rules).rules
    ]
    return {
        "surface": rules.surface,
        "digest": rules.digest,
        "rules": listed,
        "problems": [problem._asdict() for problem in problems],
    }


def _print_rules(rules: RuleSet, problems: Sequence[Problem], paint: Paint) -> None:
    every = add_languages(rules).rules
    rows = [(rule.id, rule.code, rule.action, rule.description) for rule in every]
    print(format_table(rows, ("RULE", "CODE", "ACTION", "DESCRIPTION"), paint))
    for problem in problems:
        print_error(paint, problem)
    refuse = sum(len(rule.refuse) for rule in every)
    allow = sum(len(rule.allow) for rule in every)
    summary = f"{len(every)} rules, tested on {refuse} refuse and {allow} allow rows"
    print(paint(f"{summary}: {len(problems)} failed" if problems else summary, "dim"))


_MAX_DAYS = 366


def configure_guard_report(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog(
        "the store knows what guards found in decisions; runs, times and shadow results are in a "
        "monitor's file, and live on the page of guards of `demur serve`"
    )
    add("--days N", f"how many days back, at most {_MAX_DAYS}", type=float, default=7.0)
    add("--activations FILE", "report on this file of a GuardrailMonitor instead", type=Path)
    add_tenant_option(add)
    add("--json", "one JSON object")
    add_config_option(add)


def run_guard_report(args: Namespace) -> int:
    """Print the report."""
    if not 0 < args.days <= _MAX_DAYS:
        problem = f"`{args.days:g}` is not a number of days from 1 to {_MAX_DAYS}"
        raise UsageError(problem, where="--days")
    if args.activations is not None and (args.tenant is not None or args.config is not None):
        raise UsageError("a file of activations knows no tenants and no settings")
    note = ""
    if args.activations is not None:
        if not args.activations.is_file():
            raise InputError("there is no such file", where=str(args.activations))
        report = GuardrailMonitor(args.activations).report(args.days)
    else:
        report, note = _report_on_store(args)
    if args.json:
        print(msgspec.json.encode(report).decode())
        return 0
    print(report)
    print(_format_guards(report, Paint()))
    if note:
        print(note, file=sys.stderr)
    return 0


def _report_on_store(args: Namespace) -> tuple[GuardReport, str]:
    """Return the report on the findings in a store, and a note if it omits sample decisions."""
    now = system_clock()
    since, note = now - timedelta(days=2 * args.days), ""
    with open_existing_store(load_settings(args)) as store:
        tenants = [args.tenant] if args.tenant else [head.tenant for head in store.list_heads()]
        if args.tenant is None and SAMPLE_TENANT in tenants:
            tenants.remove(SAMPLE_TENANT)
            note = f"made-up decisions are left out (--tenant {SAMPLE_TENANT} counts them)"
        found = [one for name in tenants for one in store.read_tallies(name, since, now).findings]
    hours = count_findings(found)
    return build_guard_report(hours, now=now, days=args.days, thresholds=GuardThresholds()), note


def _format_guards(report: GuardReport, paint: Paint) -> str:
    """Return the guards as a table; a dash stands for what is not known."""
    rows = [
        (
            one.surface if one.surface == one.guard else f"{one.surface}/{one.guard}",
            str(one.runs or "-"),
            str(one.findings),
            str(one.stopped),
            str(one.failures),
            ", ".join(f"{code} {count}" for code, count in list(one.codes.items())[:3]) or "-",
        )
        for one in report.guards
    ]
    return format_table(rows, ("GUARD", "RUNS", "FOUND", "STOPPED", "FAILED", "MOST OFTEN"), paint)
