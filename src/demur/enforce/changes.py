"""Change a text instead of refusing it: settings of `on_finding`, and the changes they lead to.

`redact` puts `[removed]` in place of what a guard found, `mask` puts `*` in place of its letters
and digits, and `reask` has the model answer once more with the reason. A change is made only if
the guards find nothing left that blocks; otherwise the text is refused as it is without the
setting.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from demur.codes.entry import Entry
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Surface
from demur.enforce.describe import extract_texts, to_json_value
from demur.errors import InputError, InputTypeError
from demur.gate.redaction import REMOVED
from demur.guards.output import OutputConfig, OutputText, check
from demur.guards.text_rules import RuleSet
from demur.model.finding import Finding
from demur.policy.evaluation import CHANGE_EVIDENCE, finding_blocks
from demur.source.item import did_you_mean


class FindingAction(StrEnum):
    """How a finding of a soft code is handled on a surface."""

    REFUSE = "refuse"
    REDACT = "redact"
    MASK = "mask"
    REASK = "reask"


# An action, or actions by surface or code, or by surface and then by code.
OnFinding = str | Mapping[str, str | Mapping[str, str]]
FindingActions = Mapping[Surface, Mapping[str, FindingAction]]
NO_ACTIONS: FindingActions = MappingProxyType({})

_TEXT_CHANGES = frozenset({FindingAction.REDACT, FindingAction.MASK})
# The surfaces whose text can be changed, and the one whose text a model can write again.
CHANGEABLE = frozenset(
    {Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT, Surface.RETRIEVAL}
)
# What demur looks for on each surface that has a setting for it, also where its guard does not.
_SENSITIVE = frozenset({ReasonCode.SECRET_LEAK, ReasonCode.PII_DETECTED})


def read_on_finding(
    value: OnFinding | None, registry: Registry, carried: Collection[Surface] = CHANGEABLE
) -> FindingActions:
    """Return the actions by surface and code; `carried` are the surfaces that can be changed.

    `redact` and `mask` alone are about secrets and personal data, `reask` alone about all soft
    codes of answers.

    Raises:
        InputError: There is no such action, surface or code, or it cannot be changed.
    """
    if value is None:
        return NO_ACTIONS
    reader = _ActionReader({}, tuple(carried), registry)
    if isinstance(value, str):
        reader.add(reader.carried, None, value, "on_finding")
        return reader.found
    if not isinstance(value, Mapping):
        raise InputTypeError.wrong_type("on_finding", "an action or a mapping", value)
    by_surface = [pair for pair in value.items() if pair[0] in set(Surface)]
    for code, action in value.items():
        if code not in set(Surface):
            reader.add(reader.carried, code, action, f"on_finding.{code}")
    # A setting of one surface goes before one of all surfaces.
    for surface, inner in by_surface:
        reader.add_surface(surface, inner, f"on_finding.{surface}")
    return reader.found


def find_named_surfaces(value: OnFinding | None) -> frozenset[Surface]:
    """Return the surfaces that a setting of `on_finding` names."""
    names = value if isinstance(value, Mapping) else ()
    return frozenset(one for one in Surface if one in names)


class _ActionReader(NamedTuple):
    """Reads actions, and adds them to those that it found."""

    found: dict[Surface, dict[str, FindingAction]]
    carried: tuple[Surface, ...]
    registry: Registry

    def add_surface(self, name: str, value: str | Mapping[str, str], where: str) -> None:
        """Add the actions of one surface."""
        if name not in self.carried:
            known = ", ".join(sorted(self.carried)) or "none"
            problem = f"a finding on `{name}` cannot be changed here"
            raise InputError(problem, where=where, help=f"surfaces where it can: {known}")
        surfaces = (Surface(name),)
        if isinstance(value, Mapping):
            for code, action in value.items():
                self.add(surfaces, code, action, f"{where}.{code}")
        else:
            self.add(surfaces, None, value, where)

    def add(
        self, surfaces: tuple[Surface, ...], code: str | None, name: object, where: str
    ) -> None:
        """Add the action of one code, or of all that it is about, on surfaces."""
        if name not in set(FindingAction):
            known = ", ".join(FindingAction)
            raise InputError(f"unknown action `{name}`", where=where, help=f"one of {known}")
        action = FindingAction(str(name))
        if code is None:
            soft = (entry.code for entry in self.registry if _is_changeable(entry))
            is_general = action is FindingAction.REASK
            codes = [one for one in soft if is_general or one in _SENSITIVE]
        else:
            codes = [_require_soft(code, self.registry, where)]
        able = [one for one in surfaces if _can_act(one, action, codes)]
        if surfaces and not able:
            problem = f"`{action}` is not possible on {', '.join(surfaces)}"
            raise InputError(problem, where=where, help=_LIMITS)
        for surface in able:
            self.found.setdefault(surface, {}).update(dict.fromkeys(codes, action))


_LIMITS = (
    "only an answer can be asked for again, and only secrets and personal data can be taken out "
    "of arguments"
)


def _can_act(surface: Surface, action: FindingAction, codes: Collection[str]) -> bool:
    if action is FindingAction.REASK:
        return surface is Surface.OUTPUT
    return (
        action is FindingAction.REFUSE
        or surface is not Surface.TOOL_CALL
        or (_SENSITIVE.issuperset(codes))
    )


def _require_soft(code: str, registry: Registry, where: str) -> str:
    entry = registry.get(code)
    if entry is None:
        meant = did_you_mean(code, [*Surface, *(one.code for one in registry)])
        help_text = meant or f"a soft code, or one of {', '.join(sorted(CHANGEABLE))}"
        raise InputError(f"unknown surface or code `{code}`", where=where, help=help_text)
    if not _is_changeable(entry):
        problem = f"a finding of `{code}` always refuses"
        help_text = "only soft codes can be changed: this one is hard, waits for somebody, or "
        raise InputError(problem, where=where, help=f"{help_text}says that nothing was judged")
    return entry.code


def _is_changeable(entry: Entry) -> bool:
    is_soft = entry.refusal_class is RefusalClass.SOFT_BLOCK
    return is_soft and entry.decided and not entry.obligations


class TextChanges(NamedTuple):
    """Texts and their replacements, longest first. It shows neither."""

    pairs: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"<TextChanges of {len(self.pairs)} texts>"

    def apply(self, value: Any) -> Any:
        """Return a text or JSON value with the replacements; the same object without any."""
        if isinstance(value, str):
            changed = value
            for text, replacement in self.pairs:
                changed = changed.replace(text, replacement)
            return value if changed == value else changed
        if isinstance(value, Mapping):
            items: dict[Any, Any] = {}
            for key, item in value.items():
                name = self.apply(key)
                # Two names may become one: none of their values is lost.
                items[f"{name} {len(items) + 1}" if name in items else name] = self.apply(item)
            is_same = all(
                new == old and items[new] is value[old]
                for new, old in zip(items, value, strict=False)
            )
            return value if is_same else items
        if isinstance(value, list | tuple):
            parts = [self.apply(item) for item in value]
            is_same = all(new is old for new, old in zip(parts, value, strict=True))
            return value if is_same else parts
        if isinstance(value, int | float) and not isinstance(value, bool):
            return dict(self.pairs).get(str(value), value)
        return value


@cache
def _sensitive_config() -> OutputConfig:
    """Return the settings of a search for secrets and personal data alone."""
    rules = RuleSet(surface=Surface.OUTPUT, rules=(), digest="")
    return OutputConfig(rules=rules, loose_secrets=False)


def find_sensitive(
    value: Any, surface: Surface, codes: Collection[str]
) -> tuple[str, list[Finding]]:
    """Return the searched text of a value, and the secrets and personal data of `codes` in it."""
    readable = to_json_value(value, opaque=str)
    text = "\n".join(_named_leaves(readable))
    found = check(OutputText(text), replace(_sensitive_config(), longest=max(len(text), 1)))
    wanted = _SENSITIVE.intersection(codes)
    return text, [replace(one, surface=surface) for one in found if one.code in wanted]


def _named_leaves(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts of a JSON value, each behind the name that leads to it.

    A text that is or holds JSON is followed by the texts in it, as they read without escapes.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            if item is None or isinstance(item, Mapping | list | tuple):
                yield str(key)
            yield from _named_leaves(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named_leaves(item, name)
    elif value is not None:
        text = extract_texts(str(value))
        yield f"{name}: {text}" if name else text


def plan_changes(
    text: str, findings: Iterable[Finding], actions: Mapping[str, FindingAction], registry: Registry
) -> TextChanges | None:
    """Return the changes that take what blocks out of `text`; None if there are none to make."""
    pairs: dict[str, str] = {}
    for one in findings:
        action = actions.get(one.code)
        if action not in _TEXT_CHANGES or one.span is None:
            continue
        found = text[one.span.start : one.span.end]
        if found.strip() and finding_blocks(one.code, one.action, registry):
            pairs[found] = REMOVED if action is FindingAction.REDACT else mask_text(found)
    longest_first = sorted(pairs.items(), key=lambda pair: (-len(pair[0]), pair))
    return TextChanges(tuple(longest_first)) if pairs else None


def merge_changes(one: TextChanges | None, other: TextChanges | None) -> TextChanges | None:
    """Return the changes of both; None if there are none."""
    if one is None or other is None:
        return one or other
    pairs = {*one.pairs, *other.pairs}
    return TextChanges(tuple(sorted(pairs, key=lambda pair: (-len(pair[0]), pair))))


def mark_changed(
    findings: Iterable[Finding], actions: Mapping[str, FindingAction], registry: Registry
) -> list[Finding]:
    """Return the findings, where those that were taken out of a text say how."""

    def mark(one: Finding) -> Finding:
        evidence = {key: item for key, item in one.evidence.items() if key != CHANGE_EVIDENCE}
        action = actions.get(one.code)
        is_taken_out = action in _TEXT_CHANGES and one.span is not None
        if is_taken_out and finding_blocks(one.code, one.action, registry):
            evidence[CHANGE_EVIDENCE] = str(action)
        return one if evidence == one.evidence else replace(one, evidence=evidence)

    # INVARIANT: only the enforcer says that a text was changed, never a guard.
    return list(map(mark, findings))


def read_text_changes(
    actions: Mapping[str, FindingAction],
) -> Mapping[str, Callable[[str], str]]:
    """Return the function of each code that takes a found text out of an answer's stream."""
    redact: Callable[[str], str] = lambda _text: REMOVED  # noqa: E731 - beside the other one
    known = {FindingAction.REDACT: redact, FindingAction.MASK: mask_text}
    return {code: known[action] for code, action in actions.items() if action in known}


_SIGNS = re.compile(r"[^\W_]")


def mask_text(text: str) -> str:
    """Return a text with `*` for each letter and digit."""
    return _SIGNS.sub("*", text)


def may_reask(codes: Iterable[str], actions: FindingActions) -> bool:
    """Return whether each code of a refused answer has an action, and one of them is `reask`."""
    chosen = actions.get(Surface.OUTPUT, {})
    named = [chosen.get(code) for code in codes]
    return FindingAction.REASK in named and all(named)
