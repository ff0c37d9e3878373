"""Check one command against the tables of patterns and the checks for its program."""

import re
from collections.abc import Iterator
from functools import cache

from demur.guards.code_execution.call import CommandHit, ProgramCall, program_name
from demur.guards.code_execution.cmdlet_tables import CMDLET_ROWS as CMDLETS
from demur.guards.code_execution.context import CommandCheck, CommandContext, CommandRows
from demur.guards.code_execution.data_checks import DATA_CHECKS as DATA_JUDGES
from demur.guards.code_execution.data_checks import DATA_ROWS as DATA
from demur.guards.code_execution.launchers import find_code
from demur.guards.code_execution.network_checks import NETWORK_CHECKS as NETWORK_JUDGES
from demur.guards.code_execution.network_checks import NETWORK_ROWS as NETWORK
from demur.guards.code_execution.network_checks import check_sockets
from demur.guards.code_execution.rights_checks import RIGHTS_CHECKS as RIGHTS_JUDGES
from demur.guards.code_execution.rights_checks import RIGHTS_ROWS as RIGHTS
from demur.guards.code_execution.rights_checks import STARTUP_CHECKS as STARTUP_JUDGES
from demur.guards.code_execution.rights_checks import STARTUP_ROWS as STARTUP
from demur.guards.code_execution.rights_checks import check_environment
from demur.guards.code_execution.unix_tables import ATTACK_TOOLS, TESTING_TOOLS
from demur.guards.code_execution.unix_tables import DISCOVERY_ROWS as DISCOVERY
from demur.guards.code_execution.unix_tables import SYSTEM_ROWS as SYSTEM
from demur.guards.code_execution.windows_tables import WINDOWS_ROWS as WINDOWS

_TABLES: tuple[CommandRows, ...] = (
    RIGHTS,
    STARTUP,
    NETWORK,
    SYSTEM,
    DATA,
    WINDOWS,
    CMDLETS,
    DISCOVERY,
)
_CHECKS = (RIGHTS_JUDGES, STARTUP_JUDGES, NETWORK_JUDGES, DATA_JUDGES)


@cache
def _compiled_rows(verb: str) -> tuple[tuple[tuple[str, re.Pattern[str]], ...], ...]:
    """Return the rows of each table for `verb`, compiled on first use."""
    return tuple(
        tuple((rule, re.compile(pattern)) for rule, pattern in table[verb])
        for table in _TABLES
        if verb in table
    )


_TABLE_VERBS = frozenset().union(*_TABLES)


@cache
def _checks_for(verb: str) -> tuple[CommandCheck, ...]:
    return tuple(judge for table in _CHECKS for judge in table.get(verb, ()))


_CHECKED_VERBS = frozenset().union(*_CHECKS)


def check_command(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """Yield the hits for `call`, apart from its effects on files."""
    verb = call.verb
    if verb in _CHECKED_VERBS:
        for function in _checks_for(verb):
            yield from function(call, context)
    if verb in _TABLE_VERBS:
        yield from _match_rows(call, verb)
    yield from _check_tools(call)
    if call.environment or verb in {"export", "declare", "env"}:
        yield from check_environment(call)
    if call.writes or call.reads:
        yield from check_sockets(call)


def _check_tools(call: ProgramCall) -> Iterator[CommandHit]:
    """Yield a hit for a known tool, run directly or by an interpreter."""
    names = [
        call.verb,
        *(program_name(code.file.text) for code in find_code(call) if code.file is not None),
    ]
    for name in names:
        stems = {name, name.partition(".")[0], name.rpartition(" ")[2]}
        if stems & ATTACK_TOOLS:
            yield CommandHit("ATTACK_TOOL", name)
        elif stems & TESTING_TOOLS:
            yield CommandHit("TESTING_TOOL", name)
    first = next((arg.text for arg in call.args if arg.text[:1] in "/."), "")
    if call.verb in _RAISERS and _SCRATCH.match(first):
        yield CommandHit("SCRATCH_AS_ROOT", first)


_RAISERS = frozenset({"sudo", "doas", "pkexec"})
_SCRATCH = re.compile(r"/(?:tmp|var/tmp|dev/shm|private/tmp)/")


def _match_rows(call: ProgramCall, verb: str) -> Iterator[CommandHit]:
    text = " ".join(call.texts)[:_MAX_TEXT_LENGTH]
    for rows in _compiled_rows(verb):
        for rule, pattern in rows:
            if pattern.search(text):
                disks = [arg for arg in call.texts if arg.startswith("/dev/")]
                yield CommandHit(rule, disks[-1] if disks else verb)
                break


_MAX_TEXT_LENGTH = 8_192
