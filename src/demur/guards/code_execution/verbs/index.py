"""All judges by verb: tables of patterns first, functions where places or flows count."""

import re
from collections.abc import Iterator
from functools import cache

from demur.guards.code_execution.call import Call, Sight
from demur.guards.code_execution.interpreters import codes
from demur.guards.code_execution.programs import bare
from demur.guards.code_execution.verbs.around import Around, Judge, Rows
from demur.guards.code_execution.verbs.cmdlets import ROWS as CMDLETS
from demur.guards.code_execution.verbs.data import JUDGES as DATA_JUDGES
from demur.guards.code_execution.verbs.data import ROWS as DATA
from demur.guards.code_execution.verbs.discovery import ATTACK_TOOLS, TESTING_TOOLS
from demur.guards.code_execution.verbs.discovery import ROWS as DISCOVERY
from demur.guards.code_execution.verbs.network import JUDGES as NETWORK_JUDGES
from demur.guards.code_execution.verbs.network import ROWS as NETWORK
from demur.guards.code_execution.verbs.network import sockets
from demur.guards.code_execution.verbs.rights import JUDGES as RIGHTS_JUDGES
from demur.guards.code_execution.verbs.rights import ROWS as RIGHTS
from demur.guards.code_execution.verbs.startup import JUDGES as STARTUP_JUDGES
from demur.guards.code_execution.verbs.startup import ROWS as STARTUP
from demur.guards.code_execution.verbs.startup import injected
from demur.guards.code_execution.verbs.system import ROWS as SYSTEM
from demur.guards.code_execution.verbs.windows import ROWS as WINDOWS

__all__ = ["judge"]

_TABLES: tuple[Rows, ...] = (
    RIGHTS,
    STARTUP,
    NETWORK,
    SYSTEM,
    DATA,
    WINDOWS,
    CMDLETS,
    DISCOVERY,
)
_FUNCTIONS = (RIGHTS_JUDGES, STARTUP_JUDGES, NETWORK_JUDGES, DATA_JUDGES)


@cache
def _rows(verb: str) -> tuple[tuple[tuple[str, re.Pattern[str]], ...], ...]:
    """Return the rows of each table for `verb`, compiled on first use."""
    return tuple(
        tuple((rule, re.compile(pattern)) for rule, pattern in table[verb])
        for table in _TABLES
        if verb in table
    )


_KNOWN = frozenset().union(*_TABLES)


@cache
def _functions(verb: str) -> tuple[Judge, ...]:
    return tuple(judge for table in _FUNCTIONS for judge in table.get(verb, ()))


_JUDGED = frozenset().union(*_FUNCTIONS)


def judge(call: Call, around: Around) -> Iterator[Sight]:
    """Yield the hits for `call`, apart from its effects on files."""
    verb = call.verb
    if verb in _JUDGED:
        for function in _functions(verb):
            yield from function(call, around)
    if verb in _KNOWN:
        yield from _by_pattern(call, verb)
    yield from _tools(call)
    if call.environment or verb in {"export", "declare", "env"}:
        yield from injected(call)
    if call.writes or call.reads:
        yield from sockets(call)


def _tools(call: Call) -> Iterator[Sight]:
    """Yield a hit for a known tool, run directly or by an interpreter."""
    names = [call.verb, *(bare(code.file.text) for code in codes(call) if code.file is not None)]
    for name in names:
        stems = {name, name.partition(".")[0], name.rpartition(" ")[2]}
        if stems & ATTACK_TOOLS:
            yield Sight("ATTACK_TOOL", name)
        elif stems & TESTING_TOOLS:
            yield Sight("TESTING_TOOL", name)
    first = next((arg.text for arg in call.args if arg.text[:1] in "/."), "")
    if call.verb in _RAISERS and _SCRATCH.match(first):
        yield Sight("SCRATCH_AS_ROOT", first)


_RAISERS = frozenset({"sudo", "doas", "pkexec"})
_SCRATCH = re.compile(r"/(?:tmp|var/tmp|dev/shm|private/tmp)/")


def _by_pattern(call: Call, verb: str) -> Iterator[Sight]:
    text = " ".join(call.texts)[:_LONGEST]
    for rows in _rows(verb):
        for rule, pattern in rows:
            if pattern.search(text):
                disks = [arg for arg in call.texts if arg.startswith("/dev/")]
                yield Sight(rule, disks[-1] if disks else verb)
                break


_LONGEST = 8_192
