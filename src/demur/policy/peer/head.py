"""What stands above the rules of a policy of the peer."""

import re
from collections.abc import Mapping, Sequence

from demur.codes.vocabulary import Verdict
from demur.errors import PolicyError, Problem
from demur.policy.peer.draft import Draft
from demur.policy.peer.remark import Remarks
from demur.policy.policy import Mode
from demur.source import Item

__all__ = ["SCHEMA_VERSION", "read_head", "required_evidence"]

SCHEMA_VERSION = "policy.v1"

_TOP = ("schema_version", "policy_id", "policy_version", "defaults", "rules")
_NEVER_READ = ("thresholds", "extensions")
_FIELD = re.compile(r"[A-Za-z_][\w-]*\Z", re.ASCII)


def read_head(source: Item, name: str, remarks: Remarks) -> Draft:
    """Return the policy of the peer without its rules.

    Raises:
        PolicyError: It is no policy of the peer; carries every problem.
    """
    problems: list[Problem] = []
    head = _head(source, problems)
    defaults = _mapping(head.get("defaults"), "defaults", source, problems)
    rows = head.get("rules")
    if rows is None or not isinstance(rows.value, list):
        place = source.where if rows is None else rows.where
        problems.append(Problem(place, "`rules` must be a list"))
    draft = Draft(
        source=name,
        policy_id=_text(head, "policy_id", source, problems),
        policy_version=_text(head, "policy_version", source, problems),
        mode=Mode(_word(defaults, "mode", Mode.ENFORCE, tuple(Mode), problems)),
        verdict=Verdict(
            _word(defaults, "default_verdict", Verdict.ESCALATE, tuple(Verdict), problems)
        ),
        code=_word(defaults, "default_reason_code", "NO_MATCH_DEFAULT_ESCALATE", (), problems),
        rules=(),
    )
    if problems:
        raise PolicyError.of(problems)
    _remark_head(source, draft, remarks)
    return draft


def _head(source: Item, problems: list[Problem]) -> Mapping[str, Item]:
    fields = _mapping(source, "a policy", source, problems)
    version = fields.get("schema_version")
    if version is None or version.value != SCHEMA_VERSION:
        place = source.where if version is None else version.where
        shown = "none" if version is None else version.plain
        help_text = "only policy.v1 is read; bring an older one to that form first"
        problems.append(Problem(place, f"unknown schema version `{shown}`", help_text))
    return fields


def _mapping(
    item: Item | None, what: str, source: Item, problems: list[Problem]
) -> Mapping[str, Item]:
    if item is not None and isinstance(item.value, dict):
        return item.value
    place = source.where if item is None else item.where
    problems.append(
        Problem(place, f"`{what}` must be a mapping" if item else f"`{what}` is missing")
    )
    return {}


def _text(fields: Mapping[str, Item], key: str, source: Item, problems: list[Problem]) -> str:
    item = fields.get(key)
    if item is not None and isinstance(item.value, str) and item.value.strip():
        return item.value
    place = source.where if item is None else item.where
    problems.append(Problem(place, f"`{key}` must be a text", "quote it" if item else None))
    return ""


def _word(
    fields: Mapping[str, Item],
    key: str,
    usual: str,
    known: Sequence[str],
    problems: list[Problem],
) -> str:
    item = fields.get(key)
    if item is None:
        return usual
    if isinstance(item.value, str) and item.value.strip() and (not known or item.value in known):
        return item.value
    help_text = f"one of {', '.join(known)}" if known else "a text"
    problems.append(Problem(item.where, f"unknown {key} `{item.plain}`", help_text))
    return usual


def _remark_head(source: Item, draft: Draft, remarks: Remarks) -> None:
    for key, where in source.keys.items():
        if key in _NEVER_READ:
            remarks.add("never-read", where, f"Lumyn never reads `{key}`; it is left out")
        elif key not in (*_TOP, "required_evidence"):
            remarks.add("left-out", where, f"unknown key `{key}`")
    if draft.mode is Mode.ADVISORY:
        where = source.value["defaults"].value["mode"].where
        message = "Lumyn only records the mode; here an advisory policy does not bind"
        remarks.add("mode", where, message, "write `mode: enforce` if verdicts must bind")


def required_evidence(source: Item, remarks: Remarks) -> tuple[Mapping[str, Sequence[str]], str]:
    """Return what the peer lists and never reads, and where."""
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
        remarks.add("left-out", where, message)
    return (listed if good else {}), where
