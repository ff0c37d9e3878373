"""Find long runs of characters that cannot be seen. Code: OUTPUT_FORBIDDEN, on record only.

White space, invisible characters and accents on nothing are folded away before rules are
matched, so parts of a sentence could be kept apart by any number of them. A run longer than
`MAX_PADDING` ends the text that rules are matched in, and is reported itself.
"""

import re

__all__ = ["MAX_PADDING", "PADDING", "find_padding", "find_padding_start"]

MAX_PADDING = 256

# All characters that fold to nothing or to a space; a few more do no harm.
_RANGES = (
    r"\s\x00-\x1f\x7f-\x9f\xa8\xad\xaf\xb8\u02d8-\u02dd\u0300-\u036f\u0384\u0385\u0483-\u0489"
    r"\u0591-\u05bd\u0600-\u0605\u061c\u064b-\u065f\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    r"\u17b4\u17b5\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff\u1fbd\u1fbf-\u1fc1\u1fcd-\u1fcf"
    r"\u1fdd-\u1fdf\u1fed\u1fee\u1ffd\u1ffe\u200b-\u200f\u202a-\u202e\u203e\u2060-\u206f"
    r"\u20d0-\u20ff\u2800\u3164\ufc5e-\ufc62\ufe00-\ufe0f\ufe20-\ufe2f\ufe49-\ufe4c\ufe70-\ufe7f"
    r"\ufeff\uffa0\uffe3\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
PADDING = re.compile(f"[{_RANGES}]*")


def find_padding(text: str, begin: int) -> int | None:
    """Return where the first run begins that is too long, from `begin` on.

    Such a run covers at least one of every `MAX_PADDING + 1` places, so only these are checked.
    """
    step = MAX_PADDING + 1
    for place in range(begin + MAX_PADDING, len(text), step):
        start = find_padding_start(text, begin, place + 1)
        run = PADDING.match(text, start, start + step)
        if run is not None and run.end() == start + step:
            return start
    return None


def find_padding_start(text: str, begin: int, end: int) -> int:
    """Return where the padding begins that ends at `end`; `end` if there is none."""
    while end > begin and PADDING.fullmatch(text[end - 1]):
        end -= 1
    return end
