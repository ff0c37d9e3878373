"""Comments in a skill that allow a finding on their line, with a reason.

`demur: allow CODE -- reason`, in whatever comment the file has. The skill's author writes
them, so they can explain and never decide: a block stays, and what they allow is listed.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.guards.skill.catalogue import RULES
from demur.guards.skill.document import Document
from demur.guards.skill.sighting import Sighting

__all__ = ["Allowance", "allowances", "misuses"]

_ALLOW = re.compile(r"(?:#|<!--|//|;)[ \t]*demur:[ \t]*allow\b([^\n#]*)")
_DASH = re.compile(r"\s[-\N{EN DASH}\N{EM DASH}]+(?:\s|$)")
# Rules of `demur codes lint` are written in lower case.
_OTHER = re.compile(r"\s+[a-z]+(?:-[a-z]+)+\b")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


class Allowance(NamedTuple):
    """A comment that allows codes or rules on its line; it needs a reason."""

    line: int
    start: int
    end: int
    names: tuple[str, ...]
    reason: str

    def covers(self, rule: str, code: str) -> bool:
        """Return whether the comment names the rule or its code, and says why."""
        return bool(self.reason) and (rule in self.names or code in self.names)


def allowances(document: Document) -> list[Allowance]:
    """Return the allow comments of a file."""
    if "demur:" not in document.text:
        return []
    found = _ALLOW.finditer(document.text)
    return [_allowance(document, one) for one in found if not _OTHER.match(one[1])]


def _allowance(document: Document, found: re.Match[str]) -> Allowance:
    body = found[1].replace("-->", " ").strip()
    names, *rest = _DASH.split(f" {body}", maxsplit=1)
    line = document.place(found.start()).line
    # A comment on its own line is for the line below.
    alone = not document.text[document.starts[line - 1] : found.start()].strip()
    words = tuple(_NAME.findall(names))
    return Allowance(line + alone, *found.span(), words, "".join(rest).strip())


def misuses(found: Iterable[Allowance], codes: Iterable[str]) -> Iterator[Sighting]:
    """Yield the allow comments without a reason or with an unknown name."""
    known = {*RULES, *codes}
    for one in found:
        if not one.reason:
            yield Sighting("ALLOW_NO_REASON", one.start, one.end, "allows without a reason")
        for name in one.names or ("",):
            if name not in known:
                detail = f"allows `{name[:40]}`, which is not a code or rule"
                yield Sighting("ALLOW_UNKNOWN", one.start, one.end, detail)
