"""Let a model reword a refusal, and take its words only if nothing is lost by them."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from demur.errors import one_line
from demur.respond.case import Case, Source
from demur.respond.graceful import GracefulRefusal, Polish

__all__ = ["Check", "Reword", "polished"]

Reword: TypeAlias = Callable[[GracefulRefusal], str]
Check: TypeAlias = Callable[[str, Source], Iterable[object]]

_ROOM = 400
_MOST_PROBLEMS = 10
_LONGEST_PROBLEM = 200


def polished(
    refusal: GracefulRefusal, case: Case, source: Source, reword: Reword, check: Check
) -> GracefulRefusal:
    """Return the refusal in the words of `reword`, or as it was and why.

    If `reword` or `check` raise anything, the original words are kept.
    """
    try:
        text = reword(refusal)
        problems = list(_problems(text, refusal, case))
        if not problems:
            problems = [str(one) for one in check(text, source)]
    # Models and their clients may raise anything; the refusal must be returned all the same.
    except Exception as error:  # noqa: BLE001 - see above
        text, problems = "", [f"the rewording failed: {type(error).__name__}"]
    if problems:
        shown = tuple(one_line(one)[:_LONGEST_PROBLEM] for one in problems[:_MOST_PROBLEMS])
        return msgspec.structs.replace(refusal, polish=Polish(accepted=False, problems=shown))
    return msgspec.structs.replace(refusal, text=text, polish=Polish(accepted=True))


def _problems(text: object, refusal: GracefulRefusal, case: Case) -> Iterator[str]:
    if not isinstance(text, str) or not text.strip():
        yield "the rewording is no text"
        return
    if len(text) > 2 * len(refusal.text) + _ROOM:
        yield "the rewording is much longer than what it rewords"
        return
    for fact in refusal.facts:
        if fact not in text:
            yield f"the rewording leaves out `{fact}`"
    for code in case.codes:
        if code in text:
            yield f"the rewording shows the code `{code}` to a person"
