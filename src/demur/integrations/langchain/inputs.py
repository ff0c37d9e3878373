"""What people said: which of it nobody has ruled on yet, and what stands for what was refused.

A client may choose the ids of its messages, replace one that stands in the thread already, and
put words into the model's mouth. So what was ruled on is known by its content, too.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage

from demur.enforce.ruling import Ruling

__all__ = ["digest_of", "digests_of", "new_input", "withheld"]


def new_input(messages: Sequence[BaseMessage], ruled: Collection[str]) -> list[BaseMessage]:
    """Return what people said and nobody ruled on, by the digests of what was `ruled` on.

    Beside it stands what they said since the model last spoke: several turns in a row are
    read as one. Nothing new is an empty list.
    """
    known = frozenset(ruled)
    said = [(at, one) for at, one in enumerate(messages) if _is_said(one)]
    fresh = {at for at, one in said if digest_of(one) not in known}
    if not fresh:
        return []
    spoke = _last_answer(messages)
    return [one for at, one in said if at > spoke or at in fresh]


def digests_of(messages: Iterable[BaseMessage]) -> list[str]:
    """Return the digests of what people said, to know it again."""
    return [digest_of(one) for one in messages if _is_said(one)]


def digest_of(message: BaseMessage) -> str:
    """Return the digest of a message: of its kind, its id and its content."""
    said = json.dumps([message.type, message.id, message.content], sort_keys=True, default=str)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


def withheld(message: BaseMessage, ruling: Ruling) -> HumanMessage:
    """Return what stands in the history for a message that was refused; no model reads it again."""
    return HumanMessage(
        f"[withheld: {ruling.envelope['code']}]",
        id=message.id,
        response_metadata={"refusal": ruling.envelope},
    )


def _is_said(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage | ChatMessage)


def _last_answer(messages: Sequence[BaseMessage]) -> int:
    """Return where the model last spoke; words put into its mouth at the very end do not count."""
    end = len(messages)
    while end and isinstance(messages[end - 1], AIMessage):
        end -= 1
    return max((at for at in range(end) if isinstance(messages[at], AIMessage)), default=-1)
