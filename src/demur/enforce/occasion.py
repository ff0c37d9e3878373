"""An occasion: in which framework and run something is about to happen, and for whom."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.enforce.session import ANONYMOUS

__all__ = ["Occasion"]


class Occasion(NamedTuple):
    """Where, in which run, for whom.

    `framework`, `run` and `call_id` go on record. `run` keys the history of tool calls: a run,
    session or thread of one agent. `subject` (`id`, `type`, `roles`) is who asks, `key` whom
    rate limits count, if that is somebody else. They beat what the enforcer says in general.
    """

    framework: str = ""
    run: str | None = None
    call_id: str | None = None
    subject: Mapping[str, Any] | None = None
    tenant: str | None = None
    key: str | None = None

    @property
    def trace(self) -> dict[str, str]:
        """What of it goes on record."""
        named = {"framework": self.framework, "run": self.run, "call_id": self.call_id}
        return {name: value for name, value in named.items() if value}

    def counted_as(self, subject: Mapping[str, Any] | None) -> str:
        """Return whom rate limits count, where `subject` asks."""
        name = self.key or (subject or {}).get("id")
        return name if isinstance(name, str) and name else ANONYMOUS
