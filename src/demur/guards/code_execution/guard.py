"""Find commands and code that destroy data, raise privileges, run untrusted code or leak data.

Codes: DESTRUCTIVE_ACTION, PRIVILEGE_ESCALATION, RCE_RISK, EXFILTRATION_RISK, EGRESS_DENIED,
OBFUSCATED_CODE, RISKY_IMPORT, SECRET_LEAK, TOOL_NOT_ALLOWED.

The guard reads the text as its interpreter would, and judges each program that would run by its
verb and its targets: `rm -rf build` in the workspace passes, `rm -rf /` does not, and
`echo "rm -rf /"` only prints text. It takes out commands inside commands (`sudo`, `bash -c`,
`xargs`, `find -exec`, `ssh`, `$(...)`, heredocs), decodes encodings, and follows data through
pipes, variables and files. Clear harm is blocked, a command that may be intended is escalated to
a person, and one that only looks around is noted.

Limits: the guard runs nothing and looks nothing up. It cannot see the content of files, the state
of the machine, unknown programs, or aliases and functions defined elsewhere. It reads PowerShell
and the command prompt by tokens, and Perl, Ruby, PHP and JavaScript by their calls. Length and
nesting are bounded to keep the time short; beyond the bound it escalates.
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
    """Yield a finding for each command in `event` that should not run without review.

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
    """Return the hits in `event`, read in each language that it may be written in."""
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
        # A text in one language often does not parse in another; that alone is no hit.
        seen = [item for item in seen if item.sight.rule != "UNREADABLE"]
    notes = Walk(config, bounds, start)
    for literal in literals(text):
        rule = "SECRET_LITERAL" if literal.certain else "SECRET_PERHAPS"
        notes.see(Sight(rule, literal.kind), literal.start, literal.end, "", frame)
    if len(event.text) > len(text):
        notes.see(Sight("TOO_LONG", str(len(event.text))), 0, len(text), "", frame)
    return seen + notes.seen


def _findings(seen: Iterable[Seen]) -> Iterator[Finding]:
    """Yield one finding for each rule and span, in the order of the text."""
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
    """Return the rule's action; a deletion inside a container is escalated, not blocked."""
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
    """Return `text` cut to one short line that can be stored and printed anywhere."""
    return one_line(text[:_LONGEST_TARGET].encode("utf-8", "backslashreplace").decode())
