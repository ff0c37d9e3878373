"""One reason code and everything the contract promises about it."""

from collections.abc import Mapping
from typing import NamedTuple

from demur.codes.names import local_name
from demur.codes.vocabulary import (
    Advice,
    Effect,
    GrantKind,
    Obligation,
    RefusalClass,
    RetryScope,
    Severity,
    Stability,
    Surface,
)

__all__ = ["Entry", "Examples"]


class Examples(NamedTuple):
    """Texts that show the code: rows to refuse, and their harmless twins to allow."""

    refuse: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


class Entry(NamedTuple):
    """A registered reason code.

    `spec/schemas/reason_codes.v1.schema.json` says what each field means.
    """

    code: str
    family: str
    title: str
    description: str
    effect: Effect
    refusal_class: RefusalClass | None
    severity: Severity
    advice: Advice | None
    retry_scope: RetryScope | None
    decided: bool
    parent: str | None
    grants: tuple[GrantKind, ...]
    obligations: tuple[Obligation, ...]
    surfaces: tuple[Surface, ...]
    http: int
    since: str
    stability: Stability
    deprecated: bool
    deprecated_since: str | None
    replacement: str | None
    aliases: tuple[str, ...]
    evidence: Mapping[str, str]
    xref: Mapping[str, tuple[str, ...]]
    examples: Examples

    @property
    def local_name(self) -> str:
        """The code without the organisation's domain."""
        return local_name(self.code)

    @property
    def summary(self) -> str:
        """The first sentence of the description; the rest tells similar codes apart."""
        first, stop, _ = self.description.partition(". ")
        return first + stop.rstrip()

    def as_json(self) -> dict[str, object]:
        """Return the entry as plain JSON values, in the order of the registry file."""
        raw: dict[str, object] = self._asdict()
        for field in ("grants", "obligations", "surfaces", "aliases"):
            raw[field] = list(getattr(self, field))
        raw["evidence"] = dict(self.evidence)
        raw["xref"] = {taxonomy: list(ids) for taxonomy, ids in self.xref.items()}
        raw["examples"] = {"refuse": list(self.examples.refuse), "allow": list(self.examples.allow)}
        return raw
