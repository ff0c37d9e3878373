"""Find commands and code that destroy data, raise privileges, run untrusted code or leak data.

Codes: IRRECOVERABLE_DESTRUCTION, UNAPPROVED_DESTRUCTION, PRIVILEGE_ESCALATION, RCE_RISK,
EXFILTRATION_RISK, EGRESS_DENIED, OBFUSCATED_CODE, RISKY_IMPORT, SECRET_LEAK, TOOL_NOT_ALLOWED.

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

import ast
import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError, one_line
from demur.guards.code_execution.call import Arg, CommandHit
from demur.guards.code_execution.context import LocatedHit, Location, SourceMap
from demur.guards.code_execution.event import Command, CommandConfig, FileRequest, Language
from demur.guards.code_execution.files import find_file_hits
from demur.guards.code_execution.launchers import CodeLanguage
from demur.guards.code_execution.paths import start_folder, workspace_bounds
from demur.guards.code_execution.program_walk import read_code
from demur.guards.code_execution.rules import COMMAND_RULES
from demur.guards.code_execution.script_walk import ScriptWalk
from demur.guards.secret_formats import FORMATTED_SECRETS, PRIVATE_KEYS
from demur.guards.secret_values import ASSIGNED_SECRETS
from demur.guards.static.python_syntax import parse_python
from demur.guards.text_search import TextMatch
from demur.model.finding import Action, Finding, Span

SURFACE = Surface.CODE_EXECUTION
CODES = (
    ReasonCode.IRRECOVERABLE_DESTRUCTION,
    ReasonCode.UNAPPROVED_DESTRUCTION,
    ReasonCode.PRIVILEGE_ESCALATION,
    ReasonCode.RCE_RISK,
    ReasonCode.EXFILTRATION_RISK,
    ReasonCode.EGRESS_DENIED,
    ReasonCode.OBFUSCATED_CODE,
    ReasonCode.RISKY_IMPORT,
    ReasonCode.SECRET_LEAK,
    ReasonCode.TOOL_NOT_ALLOWED,
)
_DESTRUCTIVE = (ReasonCode.IRRECOVERABLE_DESTRUCTION, ReasonCode.UNAPPROVED_DESTRUCTION)
_MAX_TARGET_LENGTH = 80
_MIN_SECRET_LENGTH = 16
_PYTHON = re.compile(
    r"(?m)^[ \t]*(?:import\s+\w|from\s+[\w.]+\s+import\s|def\s+\w+\s*\("
    r"|class\s+\w+|async\s+def\s|with\s.+:\s*$|for\s.+\sin\s.+:)"
    r"|[\w\])]\s*\(|^[ \t]*\w+[ \t]*=\s"
)
_PYTHON_NODES = (
    ast.Call,
    ast.Import,
    ast.ImportFrom,
    ast.For,
    ast.With,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)
_POWERSHELL = re.compile(
    r"(?i)\$env:|\b(?:get|set|new|add|remove|invoke|start|stop|import|out|write|test|clear|copy|enable|disable"
    r"|register|unregister|stop|restart|convertto|convertfrom)-[a-z]{3,}\b|\b(?:iex|iwr|irm)\b|\[(?:system\.|net\.|convert)"
    r"|(?m:^[ \t]*\$\w+[ \t]*=\s)|-(?:erroraction|outfile|usebasicparsing)\b"
)
_CMD = re.compile(
    r"(?i)%\w+%|(?:^|[\s\\\"&|])\w+\.exe\b|\b(?:reg|sc|net|schtasks|vssadmin|wmic|bcdedit|netsh|wevtutil|icacls|takeown"
    r"|del|rd|rmdir|copy|xcopy|robocopy|taskkill|certutil|bitsadmin|format)\s+(?:/|\\|hk|[a-z]:|\w+\s+(?:/|hk|\\)|shadow|delete|create)"
    r"|[a-z]:\\\\?\w|(?:^|\s)cmd\s+/[ck]\b"
)


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
    if isinstance(event, FileRequest):
        return _name_arguments(_build_findings(find_file_hits(event, config)), event)
    return _build_findings(find_hits(event, config))


def _name_arguments(findings: Iterable[Finding], event: FileRequest) -> Iterator[Finding]:
    """Yield findings about files, each with the argument that holds the path."""
    arguments, start = {}, 0
    for access in event.accesses:
        arguments[start] = access.argument[:_MAX_TARGET_LENGTH]
        start += len(access.path) + 1
    for found in findings:
        assert found.span is not None
        evidence = {**found.evidence, "argument": arguments[found.span.start]}
        yield replace(found, evidence=evidence)


def find_hits(event: Command, config: CommandConfig) -> list[LocatedHit]:
    """Return the hits in `event`, read in each language that it may be written in."""
    text = event.text[: config.longest].replace("\0", " ")
    bounds = workspace_bounds(config, event.cwd)
    start = start_folder(bounds, event.cwd)
    whole = Arg(text, 0, len(text), offset=0)
    location = Location(SourceMap(0, 0, len(text)))
    hits: list[LocatedHit] = []
    language = Language(event.language)
    languages = detect_languages(text) if language is Language.AUTO else [language]
    for each in languages:
        walk = ScriptWalk(config, bounds, start)
        try:
            read_code(CodeLanguage(each.value), whole, walk, location)
        except RecursionError:  # the caller's own stack may be nearly used up
            walk.report(CommandHit("NESTED_TOO_DEEP"), 0, len(text), "", location)
        hits.extend(walk.hits)
    if len(languages) > 1:
        # A text in one language often does not parse in another; that alone is no hit.
        hits = [item for item in hits if item.hit.rule != "UNREADABLE"]
    secrets = list(find_secrets(text)) if len(text) >= _MIN_SECRET_LENGTH else []
    if not secrets and len(event.text) == len(text):
        return hits
    walk = ScriptWalk(config, bounds, start)
    for secret in secrets:
        rule = "SECRET_PERHAPS" if secret.action is Action.WARN else "SECRET_LITERAL"
        kind = str(secret.evidence.get("kind", "credential"))
        walk.report(CommandHit(rule, kind), secret.start, secret.end, "", location)
    if len(event.text) > len(text):
        walk.report(CommandHit("TOO_LONG", str(len(event.text))), 0, len(text), "", location)
    return hits + walk.hits


def find_secrets(text: str) -> Iterator[TextMatch]:
    """Yield each credential in `text`, by the searches of the surface `output`."""
    for search in (PRIVATE_KEYS, FORMATTED_SECRETS, ASSIGNED_SECRETS):
        yield from search.search(text, 0, True).matches


def _build_findings(hits: Iterable[LocatedHit]) -> Iterator[Finding]:
    """Yield one finding for each rule and span, in the order of the text."""
    unique = {(item.start, item.end, item.hit.rule): item for item in reversed(list(hits))}
    strong = {
        (item.start, item.end, COMMAND_RULES[item.hit.rule].code)
        for item in unique.values()
        if COMMAND_RULES[item.hit.rule].action is not Action.WARN
    }
    for item in sorted(unique.values(), key=lambda item: (item.start, item.end, item.hit.rule)):
        rule = COMMAND_RULES[item.hit.rule]
        if rule.action is Action.WARN and (item.start, item.end, rule.code) in strong:
            continue  # the same command is already reported for the same reason
        # A guess, and a deletion in a container, which can be made again, may be approved.
        contained = (item.in_container or item.guessed) and rule.code in _DESTRUCTIVE
        lenient = contained or item.guessed
        yield Finding(
            code=ReasonCode.UNAPPROVED_DESTRUCTION if contained else rule.code,
            surface=SURFACE,
            span=Span(start=item.start, end=item.end),
            detail=f"{_shorten_text(item.verb)[:30]}: {rule.words}" if item.verb else rule.words,
            evidence=_build_evidence(item),
            action=Action.ESCALATE if lenient and rule.action is Action.BLOCK else rule.action,
        )


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


def detect_languages(text: str) -> list[Language]:
    """Return the likely languages of `text`, at least one."""
    if _PYTHON.search(text) and _is_python(text):
        return [Language.PYTHON]
    likely = ((Language.POWERSHELL, _POWERSHELL), (Language.CMD, _CMD))
    return [Language.SHELL, *(language for language, form in likely if form.search(text))]


def _is_python(text: str) -> bool:
    """Whether `text` parses as Python, and holds more than names and numbers."""
    tree = parse_python(text)
    if tree is None or not tree.body:
        return False
    if any(isinstance(node, _PYTHON_NODES) for node in ast.walk(tree)):
        return True
    # Without blanks around the equals sign, an assignment may also be shell.
    assignments = (node for node in tree.body if isinstance(node, ast.Assign))
    return any(
        node.value.col_offset - (node.targets[0].end_col_offset or 0) != 1 for node in assignments
    )
