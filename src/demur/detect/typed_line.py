"""A typed refusal line in an answer, which is taken at its word."""

import re

from demur.codes.find import FoundRefusal, find_refusals
from demur.detect.sentences import ANSWER_HEAD, ANSWER_TAIL

__all__ = ["find_typed_line"]

_CODE_BLOCK = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)


def find_typed_line(response: str) -> FoundRefusal | None:
    """Return the refusal line of a registered code that begins or ends the answer.

    A line between other lines is part of the requested text, such as a log.
    """
    for offset, window in _split_windows(response):
        prose = _CODE_BLOCK.sub(lambda found: " " * len(found[0]), window)
        for line in find_refusals(prose):
            start = prose.rfind("\n", 0, line.start) + 1
            alone = not prose[start : line.start].strip()
            first = not response[: offset + line.start].strip()
            last = not response[offset + line.end :].strip()
            if not line.legacy and alone and (first or last):
                return line._replace(start=line.start + offset, end=line.end + offset)
    return None


def _split_windows(response: str) -> list[tuple[int, str]]:
    if len(response) <= ANSWER_HEAD + ANSWER_TAIL:
        return [(0, response)]
    return [(0, response[:ANSWER_HEAD]), (len(response) - ANSWER_TAIL, response[-ANSWER_TAIL:])]
