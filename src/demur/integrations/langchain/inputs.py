"""What people said: which of it nobody has ruled on yet, and what stands for what was refused.

A client may choose the ids of its messages, replace one that stands in the thread already, and
put words into the model's mouth. So what was ruled on is known by its content, too.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage

from demur.enforce.enforcer import Occasion
from demur.enforce.ruling import Ruling
from demur.integrations.langchain.asking import Ask, Asking
from demur.integrations.langchain.messages import refused_answer, text_of

__all__ = ["Heard", "digest_of", "heard", "new_input"]

_as_json = json.JSONEncoder(sort_keys=True, default=str).encode


class Heard(NamedTuple):
    """What people said, once it was ruled on.

    By the digests it is known again. If it was refused, `withheld` are the messages that stand
    in its place, and `answer` is what is said to it.
    """

    digests: list[str]
    withheld: list[HumanMessage]
    answer: AIMessage | None = None


def heard(
    messages: Sequence[BaseMessage], ruled: Collection[str], at: Occasion
) -> Asking[Heard | None]:
    """Rule on what people said, but for what was `ruled` on before; None if that is all of it."""
    digests = _digests(messages)
    said = _new(messages, digests, ruled)
    if not said:
        return None
    ruling = yield Ask("prompt", ("\n".join(text_of(one.content) for one in said), at))
    if ruling.allowed:
        return Heard(list(digests.values()), [])
    instead = {one.id: _withheld(one, ruling) for one in said}
    left = _digests([instead.get(one.id, one) for one in messages])
    return Heard(list(left.values()), list(instead.values()), refused_answer(ruling))


def new_input(messages: Sequence[BaseMessage], ruled: Collection[str]) -> list[BaseMessage]:
    """Return what people said and nobody ruled on, by the digests of what was `ruled` on.

    Beside it stands what they said since the model last spoke: several turns in a row are
    read as one. Nothing new is an empty list.
    """
    return _new(messages, _digests(messages), ruled)


def digest_of(message: BaseMessage) -> str:
    """Return the digest of a message: of its kind, its id and its content."""
    content = message.content
    # What comes before the content ends where the content begins, whatever a client names it.
    form, said = ("text", content) if isinstance(content, str) else ("json", _as_json(content))
    text = f"{message.type} {form} {message.id!r} {said}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _digests(messages: Iterable[BaseMessage]) -> dict[int, str]:
    """Return the digests of what people said, by its place among the messages."""
    return {
        at: digest_of(one)
        for at, one in enumerate(messages)
        if isinstance(one, HumanMessage | ChatMessage)
    }


def _new(
    messages: Sequence[BaseMessage], digests: dict[int, str], ruled: Collection[str]
) -> list[BaseMessage]:
    known = frozenset(ruled)
    if known.issuperset(digests.values()):
        return []
    spoke = _last_answer(messages)
    return [messages[at] for at, one in digests.items() if at > spoke or one not in known]


def _withheld(message: BaseMessage, ruling: Ruling) -> HumanMessage:
    """Return what stands in the history for a message that was refused; no model reads it again."""
    return HumanMessage(
        f"[withheld: {ruling.envelope['code']}]",
        id=message.id,
        response_metadata={"refusal": ruling.envelope},
    )


def _last_answer(messages: Sequence[BaseMessage]) -> int:
    """Return where the model last spoke; words put into its mouth at the very end do not count."""
    end = len(messages)
    while end and isinstance(messages[end - 1], AIMessage):
        end -= 1
    return max((at for at in range(end) if isinstance(messages[at], AIMessage)), default=-1)
