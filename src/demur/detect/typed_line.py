"""A typed refusal line in an answer, which is taken at its word."""

import re

from demur.codes.find import FoundRefusal, find_refusals
from demur.detect.sentences import HEAD, TAIL

__all__ = ["typed_line"]

_CODE_BLOCK = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)


def typed_line(response: str) -> FoundRefusal | None:
    """Return the refusal line of a registered code that begins or ends the answer.

    A line between other lines is part of the requested text, such as a log.
    """
    for offset, window in _windows(response):
        prose = _CODE_BLOCK.sub(lambda found: " " * len(found[0]), window)
        for line in find_refusals(prose):
            start = prose.rfind("\n", 0, line.start) + 1
            alone = not prose[start : line.start].strip()
            first = not response[: offset + line.start].strip()
            last = not response[offset + line.end :].strip()
            if not line.legacy and alone and (first or last):
                return line._replace(start=line.start + offset, end=line.end + offset)
    return None


def _windows(response: str) -> list[tuple[int, str]]:
    if len(response) <= HEAD + TAIL:
        return [(0, response)]
    return [(0, response[:HEAD]), (len(response) - TAIL, response[-TAIL:])]
