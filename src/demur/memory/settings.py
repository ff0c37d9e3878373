"""The operator's thresholds for similarity to earlier experiences.

The defaults come from these scores of the default projection against one refund request
(a support agent, a reason in a sentence, 180 USD, eight facts as evidence):

    1.00  the same again: other order, ticket, ids
    0.96  amount and facts a little off
    0.94  one fact of eight far off
    0.93  the reason paraphrased with most of its words; fifty times the amount
    0.89  the reason paraphrased and amount and facts a little off
    0.88  another reason
    0.85  the reason paraphrased with few of its words
    0.83  three facts far off
    0.82  no facts at all
    0.79  the reason in entirely other words
    0.76  the reason paraphrased and three facts far off
    0.73  another action with the same words and facts
    0.49  another action in its own words
    0.03  something else altogether

So 0.95 blocks the same request with other ids and small changes, while one fact far off leaves
it to a person. 0.85 escalates similar requests, but no other action and no other customer. 0.98
lifts only the same request, because a wrong lift costs more than a question.
"""

from typing import Any

import msgspec

from demur.errors import InputError, InputTypeError

__all__ = ["MemorySettings"]

_MAX_NEIGHBOURS = 100


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds on similarity, from above 0 to 1.

    `block`, `escalate`: similarity to a failure that denies or asks a person. `allow`: similarity
    to a success that lifts an escalation, if `lift` is on. `block_severity`: milder failures only
    escalate. `top_k`: the number of neighbours of each outcome that are recorded.
    """

    block: float = 0.95
    escalate: float = 0.85
    allow: float = 0.98
    lift: bool = False
    block_severity: int = 3
    top_k: int = 5

    def __post_init__(self) -> None:
        for name in ("block", "escalate", "allow"):
            _check_threshold(name, getattr(self, name))
        if self.escalate > self.block:
            raise InputError(
                f"`escalate` is {self.escalate}, above `block`, which is {self.block}",
                where="memory",
                help="lower `escalate` to at most `block`",
            )
        if not isinstance(self.lift, bool):
            raise InputTypeError.wrong_type("memory: `lift`", "true or false", self.lift)
        _check_count("block_severity", self.block_severity, 5)
        _check_count("top_k", self.top_k, _MAX_NEIGHBOURS)

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON, for the record."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def _check_threshold(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError.wrong_type(f"memory: `{name}`", "a number", value)
    if not 0 < value <= 1:
        problem = f"`{name}` is {value}, but similarity is above 0 and at most 1"
        raise InputError(problem, where="memory")


def _check_count(name: str, value: object, maximum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputTypeError.wrong_type(f"memory: `{name}`", "a whole number", value)
    if not 1 <= value <= maximum:
        raise InputError(f"`{name}` is {value}, not from 1 to {maximum}", where="memory")
