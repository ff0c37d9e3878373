"""A policy on its way from the peer: what each rule will say, before codes are named."""

from typing import Any, NamedTuple

from demur.codes.vocabulary import Verdict
from demur.policy.policy import Mode, Stage

__all__ = ["PolicyDraft", "RuleDraft"]


class RuleDraft(NamedTuple):
    """One rule, and the place of Lumyn's rule."""

    id: str
    stage: Stage
    verdict: Verdict
    condition: dict[str, Any]
    where: str
    codes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    shadow: bool = False


class PolicyDraft(NamedTuple):
    """A whole policy."""

    source: str
    policy_id: str
    policy_version: str
    mode: Mode
    verdict: Verdict
    code: str | None
    rules: tuple[RuleDraft, ...]
