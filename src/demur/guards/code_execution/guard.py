"""Find commands and code that destroy data, take rights, run strangers' code or carry data away.

Codes: DESTRUCTIVE_ACTION, PRIVILEGE_ESCALATION, RCE_RISK, EXFILTRATION_RISK, EGRESS_DENIED,
OBFUSCATED_CODE, RISKY_IMPORT, SECRET_LEAK, TOOL_NOT_ALLOWED.

The text is read as its interpreter would read it, and each program that would run is judged by
its verb and its targets: `rm -rf build` in the workspace passes, `rm -rf /` does not, and
`echo "rm -rf /"` only writes words. Commands inside commands are taken out (`sudo`, `bash -c`,
`xargs`, `find -exec`, `ssh`, `$(...)`, heredocs), encodings undone, and data followed through
pipes, variables and files. What is clearly harmful is blocked, what may be meant is put to a
person, what only looks around is noted.

Limits: nothing is run or looked up, so what depends on files, on the state of the machine or on
programs that are not known is judged by words alone. Aliases and functions defined elsewhere are
not seen. PowerShell and the command prompt are read by tokens, Perl, Ruby, PHP and JavaScript by
their calls. A bound on length and nesting keeps the time short; beyond it a person is asked.
"""

from collections.abc import Iterable, Iterator

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError, one_line
from demur.guards.code_execution.call import Sight
from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.event import Command, Language
from demur.guards.code_execution.host import Frame, Seen, Source
from demur.guards.code_execution.interpreters import Tongue
from demur.guards.code_execution.languages import languages
from demur.guards.code_execution.literals import literals
from demur.guards.code_execution.places import bounds_of, start_of
from demur.guards.code_execution.rules import RULES
from demur.guards.code_execution.tongues import read_code
from demur.guards.code_execution.value import Arg
from demur.guards.code_execution.walk import Walk
from demur.model.finding import Action, Finding, Span

__all__ = ["CODES", "SURFACE", "check"]

SURFACE = Surface.CODE_EXECUTION
CODES = (
    ReasonCode.DESTRUCTIVE_ACTION,
    ReasonCode.PRIVILEGE_ESCALATION,
    ReasonCode.RCE_RISK,
    ReasonCode.EXFILTRATION_RISK,
    ReasonCode.EGRESS_DENIED,
    ReasonCode.OBFUSCATED_CODE,
    ReasonCode.RISKY_IMPORT,
    ReasonCode.SECRET_LEAK,
    ReasonCode.TOOL_NOT_ALLOWED,
)
_LONGEST_TARGET = 80


def check(event: Command, config: CommandConfig) -> Iterator[Finding]:
    """Yield a finding for each command in `event` that should not run, or not unseen.

    Raises:
        InputTypeError: The event is not a command, or its text is not a string.
        InputError: Its language is not known.
    """
    if not isinstance(event, Command):
        raise InputTypeError.expected("event", "a `Command`", event)
    if not isinstance(event.text, str):
        raise InputTypeError.expected("text", "a string", event.text)
    if event.language not in list(Language):
        known = ", ".join(f"`{language}`" for language in Language)
        raise InputError(f"unknown language `{str(event.language)[:40]}`", help=f"known: {known}")
    return _findings(_seen(event, config))


def _seen(event: Command, config: CommandConfig) -> list[Seen]:
    """Return everything that is to be said of `event`, once in each language it may be in."""
    text = event.text[: config.longest].replace("\0", " ")
    bounds = bounds_of(config, event.cwd)
    start = start_of(bounds, event.cwd)
    whole = Arg(text, 0, len(text), offset=0)
    frame = Frame(Source(0, 0, len(text)))
    seen: list[Seen] = []
    language = Language(event.language)
    read_as = languages(text) if language is Language.AUTO else [language]
    for each in read_as:
        walk = Walk(config, bounds, start)
        try:
            read_code(Tongue(each.value), whole, walk, frame)
        except RecursionError:  # the caller's own stack may be nearly used up
            walk.see(Sight("NESTED_TOO_DEEP"), 0, len(text), "", frame)
        seen.extend(walk.seen)
    if len(read_as) > 1:
        # A text in one language is often no text in another: that alone says nothing.
        seen = [item for item in seen if item.sight.rule != "UNREADABLE"]
    notes = Walk(config, bounds, start)
    for literal in literals(text):
        rule = "SECRET_LITERAL" if literal.certain else "SECRET_PERHAPS"
        notes.see(Sight(rule, literal.kind), literal.start, literal.end, "", frame)
    if len(event.text) > len(text):
        notes.see(Sight("TOO_LONG", str(len(event.text))), 0, len(text), "", frame)
    return seen + notes.seen


def _findings(seen: Iterable[Seen]) -> Iterator[Finding]:
    """Yield each thing once, in the order of places."""
    unique = {(item.start, item.end, item.sight.rule): item for item in reversed(list(seen))}
    strong = {
        (item.start, item.end, RULES[item.sight.rule].code)
        for item in unique.values()
        if RULES[item.sight.rule].action is not Action.WARN
    }
    for item in sorted(unique.values(), key=lambda item: (item.start, item.end, item.sight.rule)):
        rule = RULES[item.sight.rule]
        if rule.action is Action.WARN and (item.start, item.end, rule.code) in strong:
            continue  # the same command is already reported for the same reason
        yield Finding(
            code=rule.code,
            surface=SURFACE,
            span=Span(start=item.start, end=item.end),
            detail=f"{_plain(item.verb)[:30]}: {rule.words}" if item.verb else rule.words,
            evidence=_evidence(item),
            action=_action(rule.action, item),
        )


def _action(action: Action, seen: Seen) -> Action:
    """Return what is asked for; inside a container less is lost, so a person may decide."""
    if (
        seen.elsewhere
        and action is Action.BLOCK
        and RULES[seen.sight.rule].code == "DESTRUCTIVE_ACTION"
    ):
        return Action.ESCALATE
    return action


def _evidence(seen: Seen) -> dict[str, str]:
    evidence = {"rule": seen.sight.rule, "command": _plain(seen.verb)}
    if seen.sight.target:
        evidence["target"] = _plain(seen.sight.target.replace("/~", "~", 1))
    if seen.via:
        evidence["via"] = _plain(" ".join(seen.via))
    return evidence


def _plain(text: str) -> str:
    """Return a short text that can be stored and printed anywhere."""
    return one_line(text[:_LONGEST_TARGET].encode("utf-8", "backslashreplace").decode())
