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
from demur.guards.code_execution.call import CommandHit
from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.event import Command, Language
from demur.guards.code_execution.host import CodeLocation, LocatedHit, SourceMap
from demur.guards.code_execution.interpreters import CodeLanguage
from demur.guards.code_execution.languages import detect_languages
from demur.guards.code_execution.literals import find_secret_literals
from demur.guards.code_execution.places import workspace_bounds, start_folder
from demur.guards.code_execution.rules import RULES
from demur.guards.code_execution.tongues import read_code
from demur.guards.code_execution.value import CommandArg
from demur.guards.code_execution.walk import ScriptWalk
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
_MAX_TARGET_LENGTH = 80


def check(event: Command, config: CommandConfig) -> Iterator[Finding]:
    """Yield a finding for each command in `event` that should not run without review.

    Raises:
        InputTypeError: The event is not a command, or its text is not a string.
        InputError: Its language is not known.
    """
    if not isinstance(event, Command):
        raise InputTypeError.wrong_type("event", "a `Command`", event)
    if not isinstance(event.text, str):
        raise InputTypeError.wrong_type("text", "a string", event.text)
    if event.language not in list(Language):
        known = ", ".join(f"`{language}`" for language in Language)
        raise InputError(f"unknown language `{str(event.language)[:40]}`", help=f"known: {known}")
    return _build_findings(_collect_hits(event, config))


def _collect_hits(event: Command, config: CommandConfig) -> list[LocatedHit]:
    """Return the hits in `event`, read in each language that it may be written in."""
    text = event.text[: config.longest].replace("\0", " ")
    bounds = workspace_bounds(config, event.cwd)
    start = start_folder(bounds, event.cwd)
    whole = CommandArg(text, 0, len(text), offset=0)
    frame = CodeLocation(SourceMap(0, 0, len(text)))
    seen: list[LocatedHit] = []
    language = Language(event.language)
    read_as = detect_languages(text) if language is Language.AUTO else [language]
    for each in read_as:
        walk = ScriptWalk(config, bounds, start)
        try:
            read_code(CodeLanguage(each.value), whole, walk, frame)
        except RecursionError:  # the caller's own stack may be nearly used up
            walk.report(CommandHit("NESTED_TOO_DEEP"), 0, len(text), "", frame)
        seen.extend(walk.hits)
    if len(read_as) > 1:
        # A text in one language often does not parse in another; that alone is no hit.
        seen = [item for item in seen if item.hit.rule != "UNREADABLE"]
    notes = ScriptWalk(config, bounds, start)
    for literal in find_secret_literals(text):
        rule = "SECRET_LITERAL" if literal.certain else "SECRET_PERHAPS"
        notes.report(CommandHit(rule, literal.kind), literal.start, literal.end, "", frame)
    if len(event.text) > len(text):
        notes.report(CommandHit("TOO_LONG", str(len(event.text))), 0, len(text), "", frame)
    return seen + notes.hits


def _build_findings(hits: Iterable[LocatedHit]) -> Iterator[Finding]:
    """Yield one finding for each rule and span, in the order of the text."""
    unique = {(item.start, item.end, item.hit.rule): item for item in reversed(list(hits))}
    strong = {
        (item.start, item.end, RULES[item.hit.rule].code)
        for item in unique.values()
        if RULES[item.hit.rule].action is not Action.WARN
    }
    for item in sorted(unique.values(), key=lambda item: (item.start, item.end, item.hit.rule)):
        rule = RULES[item.hit.rule]
        if rule.action is Action.WARN and (item.start, item.end, rule.code) in strong:
            continue  # the same command is already reported for the same reason
        yield Finding(
            code=rule.code,
            surface=SURFACE,
            span=Span(start=item.start, end=item.end),
            detail=f"{_shorten_text(item.verb)[:30]}: {rule.words}" if item.verb else rule.words,
            evidence=_build_evidence(item),
            action=_action_for(rule.action, item),
        )


def _action_for(action: Action, hit: LocatedHit) -> Action:
    """Return the rule's action; a deletion inside a container is escalated, not blocked."""
    if (
        hit.elsewhere
        and action is Action.BLOCK
        and RULES[hit.hit.rule].code == "DESTRUCTIVE_ACTION"
    ):
        return Action.ESCALATE
    return action


def _build_evidence(hit: LocatedHit) -> dict[str, str]:
    evidence = {"rule": hit.hit.rule, "command": _shorten_text(hit.verb)}
    if hit.hit.target:
        evidence["target"] = _shorten_text(hit.hit.target.replace("/~", "~", 1))
    if hit.via:
        evidence["via"] = _shorten_text(" ".join(hit.via))
    return evidence


def _shorten_text(text: str) -> str:
    """Return `text` cut to one short line that can be stored and printed anywhere."""
    return one_line(text[:_MAX_TARGET_LENGTH].encode("utf-8", "backslashreplace").decode())
