"""Comments in a skill that allow a finding on their line, with a reason.

`demur: allow CODE -- reason`, in whatever comment the file has. The skill's author writes
them, so they can explain and never decide: a block stays, and what they allow is listed.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.guards.skill.catalogue import RULES
from demur.guards.skill.document import SourceText
from demur.guards.skill.sighting import SkillHit

__all__ = ["AllowComment", "find_allow_comments", "find_misuses"]

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
    found = _ALLOW.finditer(document.text)
    return [_parse_allow_comment(document, one) for one in found if not _OTHER.match(one[1])]


def _parse_allow_comment(document: SourceText, found: re.Match[str]) -> AllowComment:
    body = found[1].replace("-->", " ").strip()
    names, *rest = _DASH.split(f" {body}", maxsplit=1)
    line = document.line_column(found.start()).line
    # A comment on its own line is for the line below.
    alone = not document.text[document.line_starts[line - 1] : found.start()].strip()
    words = tuple(_NAME.findall(names))
    return AllowComment(line + alone, *found.span(), words, "".join(rest).strip())


def find_misuses(found: Iterable[AllowComment], codes: Iterable[str]) -> Iterator[SkillHit]:
    """Yield the allow comments without a reason or with an unknown name."""
    known = {*RULES, *codes}
    for one in found:
        if not one.reason:
            yield SkillHit("ALLOW_NO_REASON", one.start, one.end, "allows without a reason")
        for name in one.names or ("",):
            if name not in known:
                detail = f"allows `{name[:40]}`, which is not a code or rule"
                yield SkillHit("ALLOW_UNKNOWN", one.start, one.end, detail)
