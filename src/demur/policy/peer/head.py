"""What stands above the rules of a policy of the peer."""

import re
from collections.abc import Mapping, Sequence

from demur.codes.vocabulary import Verdict
from demur.errors import PolicyError
from demur.policy.peer.draft import PolicyDraft
from demur.policy.peer.remark import ImportDiagnostics
from demur.policy.policy import Mode
from demur.source.item import SourceItem

__all__ = ["LUMYN_SCHEMA_VERSION", "read_head", "read_required_evidence"]

LUMYN_SCHEMA_VERSION = "policy.v1"

_TOP_KEYS = ("schema_version", "policy_id", "policy_version", "defaults", "rules")
_NEVER_READ = ("thresholds", "extensions")
_FIELD = re.compile(r"[A-Za-z_][\w-]*\Z", re.ASCII)


def read_head(source: SourceItem, name: str, diagnostics: ImportDiagnostics) -> PolicyDraft:
    """Return Lumyn's policy without its rules.

    Raises:
        PolicyError: It is not a Lumyn policy; carries every problem.
    """
    source.as_mapping("a policy")
    _check_version(source)
    defaults = source.require_item("defaults")
    source.require_item("rules")
    source.list_items("rules")
    draft = PolicyDraft(
        source=name,
        policy_id=source.require_text("policy_id"),
        policy_version=source.require_text("policy_version"),
        mode=Mode.ENFORCE,
        verdict=Verdict.ESCALATE,
        code="NO_MATCH_DEFAULT_ESCALATE",
        rules=(),
    )
    if defaults is not None:
        draft = _with_defaults(draft, defaults)
    source.raise_problems(PolicyError)
    _note_head(source, draft, diagnostics)
    return draft


def _with_defaults(draft: PolicyDraft, item: SourceItem) -> PolicyDraft:
    item.as_mapping("`defaults`")
    return draft._replace(
        mode=item.word_or_default("mode", draft.mode),
        verdict=item.word_or_default("default_verdict", draft.verdict),
        code=item.optional_text("default_reason_code") or draft.code,
    )


def _check_version(source: SourceItem) -> None:
    version = source.get("schema_version")
    if version is None or version.value != LUMYN_SCHEMA_VERSION:
        place, shown = (source, "none") if version is None else (version, version.plain_value)
        help_text = "only policy.v1 is read; bring an older one to that form first"
        place.report(f"unknown schema version `{shown}`", help_text)


def _note_head(source: SourceItem, draft: PolicyDraft, diagnostics: ImportDiagnostics) -> None:
    for key, where in source.keys.items():
        if key in _NEVER_READ:
            diagnostics.add("never-read", where, f"Lumyn never reads `{key}`; it is left out")
        elif key not in (*_TOP_KEYS, "required_evidence"):
            diagnostics.add("left-out", where, f"unknown key `{key}`")
    if draft.mode is Mode.ADVISORY:
        where = source.value["defaults"].value["mode"].where
        message = "Lumyn only records the mode; here an advisory policy does not bind"
        diagnostics.add("mode", where, message, "write `mode: enforce` if verdicts must bind")


def read_required_evidence(
    source: SourceItem, diagnostics: ImportDiagnostics
) -> tuple[Mapping[str, Sequence[str]], str]:
    """Return the evidence that Lumyn lists and never reads, and its place."""
    where = source.keys.get("required_evidence", source.where)
    item = source.value.get("required_evidence")
    listed = {} if item is None else item.plain
    good = isinstance(listed, dict) and all(
        isinstance(names, list)
        and all(isinstance(name, str) and _FIELD.match(name) for name in names)
        for names in listed.values()
    )
    if not good:
        message = "`required_evidence` is left out: it lists the names of fields by action"
        diagnostics.add("left-out", where, message)
    return (listed if good else {}), where
