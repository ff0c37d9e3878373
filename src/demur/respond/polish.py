"""Let a model reword a refusal, and take its words only if nothing is lost by them."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from demur.errors import one_line
from demur.respond.case import RefusalCase, ComposeSource
from demur.respond.graceful import GracefulRefusal, RewordResult

__all__ = ["RewordCheck", "Reword", "reword_refusal"]

Reword: TypeAlias = Callable[[GracefulRefusal], str]
RewordCheck: TypeAlias = Callable[[str, ComposeSource], Iterable[object]]

_MAX_EXTRA_LENGTH = 400
_MAX_PROBLEMS = 10
_MAX_PROBLEM_LENGTH = 200


def reword_refusal(
    refusal: GracefulRefusal,
    case: RefusalCase,
    source: ComposeSource,
    reword: Reword,
    check: RewordCheck,
) -> GracefulRefusal:
    """Return the refusal in the words of `reword`, or as it was and why.

    If `reword` or `check` raise anything, the original words are kept.
    """
    try:
        text = reword(refusal)
        problems = list(_rewording_problems(text, refusal, case))
        if not problems:
            problems = [str(one) for one in check(text, source)]
    # Models and their clients may raise anything; the refusal must be returned all the same.
    except Exception as error:  # noqa: BLE001 - see above
        text, problems = "", [f"the rewording failed: {type(error).__name__}"]
    if problems:
        shown = tuple(one_line(one)[:_MAX_PROBLEM_LENGTH] for one in problems[:_MAX_PROBLEMS])
        return msgspec.structs.replace(refusal, polish=RewordResult(accepted=False, problems=shown))
    return msgspec.structs.replace(refusal, text=text, polish=RewordResult(accepted=True))


def _rewording_problems(text: object, refusal: GracefulRefusal, case: RefusalCase) -> Iterator[str]:
    if not isinstance(text, str) or not text.strip():
        yield "the rewording is no text"
        return
    if len(text) > 2 * len(refusal.text) + _MAX_EXTRA_LENGTH:
        yield "the rewording is much longer than what it rewords"
        return
    for fact in refusal.facts:
        if fact not in text:
            yield f"the rewording leaves out `{fact}`"
    for code in case.codes:
        if code in text:
            yield f"the rewording shows the code `{code}` to a person"
