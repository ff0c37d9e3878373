"""Scan a skill or plugin folder before it is trusted.

Codes: RISKY_IMPORT, RCE_RISK, OBFUSCATED_CODE, SKILL_INJECTION; for commands and code also
EXFILTRATION_RISK, IRRECOVERABLE_DESTRUCTION, UNAPPROVED_DESTRUCTION, PRIVILEGE_ESCALATION,
SECRET_LEAK; for files that could not be judged GUARDRAIL_PARTIAL; for invalid allow comments
POLICY_VIOLATION.

A comment `demur: allow CODE -- reason` allows a finding on its line. The skill's author writes it,
so it explains and never decides: a block stays, and the report lists every allowed finding.

Limits: the guard reads Python, shell, PowerShell, Markdown and manifests; it names other languages
and compiled files as not judged. It follows values by name within one Python file, so data that
passes through another file, a database or `setattr` is lost. Nothing is run.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.skill.event import Skill, SkillConfig, compute_fingerprint
from demur.guards.skill.file_scan import scan_file
from demur.guards.skill.rules import SkillHit, skill_rules
from demur.guards.static.source_text import SourceText, decode_bytes
from demur.model.finding import Action, Finding, Span

_ALLOW = re.compile(r"(?:#|<!--|//|;)[ \t]*demur:[ \t]*allow\b([^\n#]*)")
_DASH = re.compile(r"\s[-\N{EN DASH}\N{EM DASH}]+(?:\s|$)")
# Rules of `demur codes lint` are written in lower case.
_OTHER = re.compile(r"\s+[a-z]+(?:-[a-z]+)+\b")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


class AllowComment(NamedTuple):
    """A comment that allows codes or rules on its line; it needs a reason."""

    line: int
    start: int
    end: int
    names: tuple[str, ...]
    reason: str

    def covers(self, rule: str, code: str) -> bool:
        """Return whether the comment names the rule or its code, and says why."""
        return bool(self.reason) and (rule in self.names or code in self.names)


def find_allow_comments(document: SourceText) -> list[AllowComment]:
    """Return the allow comments of a file."""
    if "demur:" not in document.text:
        return []
    matches = _ALLOW.finditer(document.text)
    return [_parse_comment(document, match) for match in matches if not _OTHER.match(match[1])]


def _parse_comment(document: SourceText, match: re.Match[str]) -> AllowComment:
    body = match[1].replace("-->", " ").strip()
    names, *rest = _DASH.split(f" {body}", maxsplit=1)
    line = document.line_column(match.start()).line
    # A comment on its own line is for the line below.
    alone = not document.text[document.line_starts[line - 1] : match.start()].strip()
    words = tuple(_NAME.findall(names))
    return AllowComment(line + alone, *match.span(), words, "".join(rest).strip())


def find_misuses(comments: Iterable[AllowComment], codes: Iterable[str]) -> Iterator[SkillHit]:
    """Yield the allow comments without a reason or with an unknown name."""
    known = {*skill_rules(), *codes}
    for _, start, end, names, reason in comments:
        if not reason:
            yield SkillHit("ALLOW_NO_REASON", start, end, "allows without a reason")
        for name in names or ("",):
            if name not in known:
                detail = f"allows `{name[:40]}`, which is not a code or rule"
                yield SkillHit("ALLOW_UNKNOWN", start, end, detail)


SURFACE = Surface.SKILL
CODES = (
    ReasonCode.RISKY_IMPORT,
    ReasonCode.RCE_RISK,
    ReasonCode.OBFUSCATED_CODE,
    ReasonCode.SKILL_INJECTION,
    ReasonCode.EXFILTRATION_RISK,
    ReasonCode.IRRECOVERABLE_DESTRUCTION,
    ReasonCode.UNAPPROVED_DESTRUCTION,
    ReasonCode.PRIVILEGE_ESCALATION,
    ReasonCode.SECRET_LEAK,
    ReasonCode.GUARDRAIL_PARTIAL,
    ReasonCode.POLICY_VIOLATION,
)
_MAX_DETAIL_LENGTH = 120
_CONTEXT_LENGTH = 500
_MAX_LINES_LENGTH = 10_000
# This prefix identifies a secret in a text that may be cut off inside it.
_MIN_SECRET_PREFIX = 6


class SuppressedFinding(NamedTuple):
    """A finding that a comment in the skill allows, and the reason it gives."""

    finding: Finding
    reason: str


class Inspection(NamedTuple):
    """The findings in a skill, and those that its own comments allow."""

    findings: tuple[Finding, ...]
    suppressed: tuple[SuppressedFinding, ...]


def check(event: Skill, config: SkillConfig) -> Iterator[Finding]:
    """Yield the findings that speak against trusting the skill, by file."""
    yield from inspect_skill(event, config).findings


def inspect_skill(event: Skill, config: SkillConfig) -> Inspection:
    """Return the findings by file and position, and separately those that comments allow."""
    findings: list[Finding] = []
    suppressed: list[SuppressedFinding] = []
    for path in sorted({*event.files, *event.omitted}):
        file = _FileScan(path, event, config)
        for finding, reason in file.scan_findings():
            if reason is None:
                findings.append(finding)
            else:
                suppressed.append(SuppressedFinding(finding, reason))
    return Inspection(tuple(findings), tuple(suppressed))


class _FileScan:
    """Scans one file of the skill and turns hits into findings."""

    def __init__(self, path: str, event: Skill, config: SkillConfig) -> None:
        self._path = path
        self._event = event
        self._config = config
        self._document = SourceText(path, decode_bytes(event.files.get(path, b"")))
        self._secrets: list[str] = []
        self._repeat_counts: Counter[tuple[str, ...]] = Counter()

    def scan_findings(self) -> Iterator[tuple[Finding, str | None]]:
        """Yield each finding, with the reason if a comment allows it."""
        comments = find_allow_comments(self._document)
        refused: set[AllowComment] = set()
        for hit in self._collect_hits(comments):
            finding = self._build_finding(hit)
            near = (item for item in comments if item.line == finding.evidence["line"])
            allowed = [comment for comment in near if comment.covers(hit.rule, finding.code)]
            # INVARIANT: a comment in a skill never lifts a block.
            if allowed and finding.action is not Action.BLOCK and self._config.trust_comments:
                yield finding, allowed[0].reason
            else:
                yield finding, None
                if finding.action is Action.BLOCK:
                    refused.update(allowed)
        for _, start, end, _, _ in sorted(refused):
            detail = "a comment in the skill that would lift a block"
            yield self._build_finding(SkillHit("ALLOW_BLOCK", start, end, detail)), None

    def _collect_hits(self, comments: list[AllowComment]) -> list[SkillHit]:
        if self._path in self._event.omitted:
            why = self._event.omitted[self._path]
            return [SkillHit("FILE_OMITTED", 0, 0, f"not read: {why}")]
        data = self._event.files[self._path]
        hits = list(scan_file(self._document, data, self._event.files, self._config))
        text = self._document.text
        self._secrets = [text[hit.start : hit.end] for hit in hits if hit.rule == "CREDENTIAL"]
        hits += find_misuses(comments, CODES)
        # The first hit of a rule at a span counts.
        distinct = {(hit.start, hit.end, hit.rule): hit for hit in reversed(hits)}
        return [distinct[key] for key in sorted(distinct)]

    def _build_finding(self, hit: SkillHit) -> Finding:
        rule = skill_rules().get(hit.rule)
        code = hit.code or (rule.code if rule else ReasonCode.POLICY_VIOLATION)
        action = self._config.actions.get(hit.rule) or hit.action
        size = len(self._document.text)
        start, end = min(hit.start, size), min(hit.end, size)
        line, column = self._document.line_column(start)
        lines = self._surrounding_lines(start, end)
        key = (hit.rule, code, " ".join(lines.split()))
        self._repeat_counts[key] += 1
        mark = compute_fingerprint(self._path, hit.rule, code, lines, self._repeat_counts[key])
        evidence = {
            key: self._clean_text(value) if isinstance(value, str) else value
            for key, value in hit.evidence.items()
        }
        place = {"file": self._path, "line": line, "column": column, "rule": hit.rule}
        return Finding(
            code=code,
            surface=SURFACE,
            span=Span(start=start, end=max(start, end)),
            detail=self._clean_text(hit.detail)[:_MAX_DETAIL_LENGTH],
            evidence={**evidence, **place, "fingerprint": mark},
            action=action or (rule.action if rule else Action.ESCALATE),
        )

    def _surrounding_lines(self, start: int, end: int) -> str:
        """Return the lines of a finding, cut to the part around it if they are very long."""
        document = self._document
        starts = document.line_starts
        first = document.line_column(start).line
        last = document.line_column(max(start, end - 1)).line
        begin = max(starts[first - 1], start - _CONTEXT_LENGTH)
        after = starts[last] if last < len(starts) else len(document.text)
        return document.text[begin : min(after, end + _CONTEXT_LENGTH)][:_MAX_LINES_LENGTH]

    def _clean_text(self, text: str) -> str:
        """Return `text` without secrets and lone surrogates, which no record may hold."""
        for secret in self._secrets:
            text = text.partition(secret[:_MIN_SECRET_PREFIX])[0]
        return text.encode("utf-8", "replace").decode("utf-8")
