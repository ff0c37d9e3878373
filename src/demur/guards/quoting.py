"""Quote returned text as data: without the passages that give orders, and marked line by line.

A planted order need not cost the whole result. The passage around each finding that holds is
removed, from the start of its sentence to the end of its line; a hidden part is removed as a
whole, and so is everything after an order that ends a document. The rest is quoted line by line
under a line that says what it is, without control characters.

Limits: only passages with a finding are removed. Check the quotation again before you pass it on,
as `demur.enforce` does.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter

from demur.guards.tool_result import (
    EDGE_RULES,
    RETURNED_CODES,
    HiddenPart,
    find_hidden_parts,
    merge_parts,
)
from demur.model.finding import Action, Finding

_part_start = attrgetter("start")
_SENTENCE_END = re.compile(r"[.!?\u3002\uff01\uff1f][\"')\]]{0,3}\s|\n")
_MAX_BEFORE = 300
_MAX_AFTER = 600
# Names of tools and sources are untrusted as well: a name is one word, so it says nothing.
_NAME = re.compile(r"\w[\w.:/-]{0,63}", re.ASCII)
# Characters that a terminal obeys, that turn the direction of writing, or that nobody sees.
_CONTROLS = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


def quote_as_data(text: str, findings: Iterable[Finding], source: str = "tool") -> str | None:
    """Return the text as quoted data without the passages that `findings` hold by.

    None if nothing holds, or a finding that does is no planted order or has no place in the text.
    """
    holding = [found for found in findings if found.action is not Action.WARN]
    if not holding or any(
        found.code not in RETURNED_CODES or found.span is None for found in holding
    ):
        return None
    removed = _merge_spans(_passages(text, holding))
    kept: list[str] = []
    done = 0
    for start, end in removed:
        kept += [text[done:start], "[removed]"]
        done = end
    kept.append(text[done:])
    name = source if _NAME.fullmatch(source) else "a tool"
    count = f"{len(removed)} passage{'s' * (len(removed) != 1)} that gave orders removed"
    # INVARIANT: each line of the text is quoted, whatever ends it.
    lines = _CONTROLS.sub("", "".join(kept)).splitlines()
    return "\n".join([f"Quoted data from {name}, {count}:", *(f"> {line}" for line in lines)])


def _passages(text: str, holding: Iterable[Finding]) -> Iterator[tuple[int, int]]:
    """Yield the place of the passage around each finding."""
    parts: list[HiddenPart] | None = None
    for found in holding:
        assert found.span is not None
        start, end = found.span.start, found.span.end
        if "hidden" in found.evidence:
            parts = merge_parts(find_hidden_parts(text)) if parts is None else parts
            index = bisect_right(parts, start, key=_part_start) - 1
            if index >= 0 and start < parts[index].end:
                start, end = parts[index].start, max(end, parts[index].end)
        elif str(found.evidence.get("rule", "")).startswith(EDGE_RULES):
            end = len(text)
        first = max(0, start - _MAX_BEFORE)
        ends = [match.end() for match in _SENTENCE_END.finditer(text, first, start)]
        line_end = text.find("\n", end, end + _MAX_AFTER)
        last = line_end if line_end >= 0 else min(len(text), end + _MAX_AFTER)
        yield (ends[-1] if ends else first), last


def _merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
