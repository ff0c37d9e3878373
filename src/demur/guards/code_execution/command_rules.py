"""Check one command against `rules/commands.yaml`, and by the checks for its program.

Parsing the whole file would take a tenth of a cold start. So the file is cut at its keys, and an
entry is parsed when its program first runs.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from demur.guards.code_execution.call import CommandHit, ProgramCall, program_name
from demur.guards.code_execution.carried_values import check_carried
from demur.guards.code_execution.context import CommandContext
from demur.guards.code_execution.launchers import find_code
from demur.guards.code_execution.network_checks import NETWORK_CHECKS, check_sockets
from demur.guards.code_execution.program_checks import PROGRAM_CHECKS, check_environment
from demur.guards.code_execution.rules import (
    RULE_FILES,
    compile_pattern,
    join_patterns,
    parse_yaml,
    read_table,
)

_KEY = re.compile(r"\n(?=\w)")
_ENTRY = re.compile(r"\n(?=    - |  \w)")
_WORD = re.compile(r"\{([a-z]+)\}")
_MAX_TEXT_LENGTH = 8_192
_CHECKS = PROGRAM_CHECKS | NETWORK_CHECKS
_RAISERS = frozenset({"sudo", "doas", "pkexec"})
_SCRATCH = re.compile(r"/(?:tmp|var/tmp|dev/shm|private/tmp)/")


def check_command(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """Yield the hits for `call`, apart from its effects on files."""
    verb = call.verb
    for check in _CHECKS.get(verb, ()):
        yield from check(call, context)
    if verb in _entries():
        yield from _match_rows(call)
    yield from _check_tools(call)
    yield from check_carried(call, context)
    if call.environment or verb in {"export", "declare", "env"}:
        yield from check_environment(call)
    if call.writes or call.reads:
        yield from check_sockets(call)


def _match_rows(call: ProgramCall) -> Iterator[CommandHit]:
    text = " ".join(call.texts)[:_MAX_TEXT_LENGTH]
    for rows in _rows(call.verb):
        if rule := next((rule for rule, pattern in rows if pattern.search(text)), None):
            disks = [arg for arg in call.texts if arg.startswith("/dev/")]
            yield CommandHit(rule, disks[-1] if disks else call.verb)


def _check_tools(call: ProgramCall) -> Iterator[CommandHit]:
    """Yield a hit for a known tool, run directly or by an interpreter."""
    files = (code.file for code in find_code(call) if code.file is not None)
    for name in (call.verb, *(program_name(file.text) for file in files)):
        stems = {name, name.partition(".")[0], name.rpartition(" ")[2]}
        for rule, tools in _tools().items():
            if stems & tools:
                yield CommandHit(rule, name)
                break
    first = next((arg.text for arg in call.args if arg.text[:1] in "/."), "")
    if call.verb in _RAISERS and _SCRATCH.match(first):
        yield CommandHit("SCRATCH_AS_ROOT", first)


@cache
def _sections() -> Mapping[str, str]:
    """Return the text of the file by its keys."""
    text = (RULE_FILES / "commands.yaml").read_text(encoding="utf-8")
    return {section.partition(":")[0]: section for section in _KEY.split(text)}


@cache
def _section(name: str) -> Any:
    return parse_yaml(_sections()[name])[name]


@cache
def _entries() -> Mapping[str, list[str]]:
    """Return the texts of a program's entries, in the order of the families."""
    entries: dict[str, list[str]] = {}
    for entry in _ENTRY.split(_sections()["families"]):
        programs = entry.partition("\n      rules:")[0].partition("- programs:")[2]
        for program in programs.split():
            entries.setdefault(program, []).append(entry)
    return entries


@cache
def _rows(program: str) -> tuple[tuple[tuple[str, re.Pattern[str]], ...], ...]:
    """Return the rules and patterns of a program, by family."""
    tables = (parse_yaml(text)[0]["rules"] for text in _entries()[program])
    rows = ([pair for row in table for pair in row.items()] for table in tables)
    return tuple(tuple((rule, _compile(pattern)) for rule, pattern in pairs) for pairs in rows)


def _compile(pattern: str) -> re.Pattern[str]:
    words = _section("words")
    return re.compile(_WORD.sub(lambda match: join_patterns(words[match[1]]), pattern))


@cache
def _tools() -> Mapping[str, frozenset[str]]:
    return {rule: frozenset(names.split()) for rule, names in _section("tools").items()}


@cache
def powershell_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the patterns over whole PowerShell texts, each with its rule."""
    rows = read_table("powershell.yaml")["rules"]
    return tuple((row["rule"], compile_pattern(row["any"], re.DOTALL)) for row in rows)
