"""The context of a call: framework, run and subject."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.enforce.session import ANONYMOUS

__all__ = ["CallContext"]


class CallContext(NamedTuple):
    """The framework and run of a call, and the subject it is made for.

    `framework`, `run` and `call_id` are recorded. `run` is the key of the history of tool calls: a
    run, session or thread of one agent. `subject` (`id`, `type`, `roles`) is the requester;
    `key` is the key of rate limits, if it is another one. They override the enforcer's defaults.
    """

    framework: str = ""
    run: str | None = None
    call_id: str | None = None
    subject: Mapping[str, Any] | None = None
    tenant: str | None = None
    key: str | None = None

    @property
    def trace(self) -> dict[str, str]:
        """The part that is recorded."""
        named = {"framework": self.framework, "run": self.run, "call_id": self.call_id}
        return {name: value for name, value in named.items() if value}

    def rate_key(self, subject: Mapping[str, Any] | None) -> str:
        """Return the key of rate limits for a call by `subject`."""
        name = self.key or (subject or {}).get("id")
        return name if isinstance(name, str) and name else ANONYMOUS
