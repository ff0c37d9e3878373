"""Compare two versions of a registry: every change, and how much it breaks.

Levels: `patch` changes wording, `minor` adds, `major` changes what consumers rely on, and
`refused` breaks the contract: to delete, reuse, retarget or loosen a code is never allowed.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from demur.codes.document import Document, read_document
from demur.codes.registry import CORE_PATH, Registry, inherit
from demur.codes.vocabulary import RefusalClass
from demur.errors import RegistryError

__all__ = ["Change", "Evolution", "Level", "compare"]


class Level(IntEnum):
    """How much a change breaks for consumers of the codes. Only the order of numbers matters."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3
    REFUSED = 4


class Change(NamedTuple):
    """One difference: how much it breaks, where, and what it is."""

    level: Level
    subject: str
    text: str


class Evolution(NamedTuple):
    """All differences between two registries, the most breaking first."""

    old_version: str
    new_version: str
    changes: tuple[Change, ...]

    @property
    def level(self) -> Level:
        """The level of the most breaking change."""
        return max((change.level for change in self.changes), default=Level.NONE)

    @property
    def version_fits(self) -> bool:
        """Whether the new version number is high enough for the changes."""
        old, new = _numbers(self.old_version), _numbers(self.new_version)
        return {
            Level.NONE: new >= old,
            Level.PATCH: new > old,
            Level.MINOR: new[:2] > old[:2],
            Level.MAJOR: new[:1] > old[:1],
            Level.REFUSED: False,
        }[self.level]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def compare(old: Document, new: Document) -> Evolution:
    """Return the changes from `old` to `new`, two files of one registry.

    Raises:
        RegistryError: The files belong to different domains.
    """
    if old.domain != new.domain:
        raise RegistryError(
            f"`{old.domain or 'core'}` and `{new.domain or 'core'}` are different registries",
            where=new.where,
            help="compare two versions of one registry",
        )
    before, after = _entries(old), _entries(new)
    changes = [*_codes(before, after), *_phrases(_owners(old, before), _owners(new, after))]
    changes.sort(key=lambda change: (-change.level, change.subject, change.text))
    return Evolution(old.version, new.version, tuple(changes))


_Fields = Mapping[str, Any]


def _entries(document: Document) -> dict[str, _Fields]:
    """Return the fields of each code, with inherited ones filled in.

    The registry's rules are not checked: one that dropped a parent must still be comparable.
    """
    if document.domain is None:
        return {row.code: row.fields for row in document.rows}
    core = Registry(read_document(CORE_PATH))
    parents = {row.code: core.get(str(row.fields.get("parent"))) for row in document.rows}
    return {
        row.code: row.fields if (parent := parents[row.code]) is None else inherit(row, parent)
        for row in document.rows
    }


def _owners(document: Document, entries: Mapping[str, _Fields]) -> dict[str, str]:
    owners = {phrase.casefold(): code for phrase, code in document.phrases.items()}
    for code, fields in entries.items():
        owners.update({phrase.casefold(): code for phrase in fields.get("aliases", ())})
    return owners


def _codes(before: Mapping[str, _Fields], after: Mapping[str, _Fields]) -> Iterator[Change]:
    for code in sorted(before.keys() - after.keys()):
        yield Change(Level.REFUSED, code, "deleted; deprecate it instead, codes are for ever")
    for code in sorted(after.keys() - before.keys()):
        yield Change(Level.MINOR, code, "added")
    for code in sorted(before.keys() & after.keys()):
        for field, judge in _JUDGES.items():
            old, new = before[code].get(field), after[code].get(field)
            if old != new:
                level, text = judge(old, new)
                yield Change(level, code, f"{field}: {text}")


def _phrases(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for phrase, code in sorted(before.items()):
        if phrase not in after:
            yield Change(Level.MAJOR, code, f"aliases: `{phrase}` removed")
        elif after[phrase] != code:
            text = f"aliases: `{phrase}` retargeted to `{after[phrase]}`"
            yield Change(Level.REFUSED, code, text)
    for phrase in sorted(after.keys() - before.keys()):
        yield Change(Level.MINOR, after[phrase], f"aliases: `{phrase}` added")
        for older, code in sorted(before.items()):
            if older in phrase and code != after[phrase]:
                text = f"aliases: `{phrase}` takes texts from `{older}` of `{code}`"
                yield Change(Level.MAJOR, after[phrase], text)


_Judge = Callable[[Any, Any], tuple[Level, str]]


def _always(level: Level) -> _Judge:
    return lambda old, new: (level, f"`{_show(old)}` became `{_show(new)}`")


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _wording(old: object, new: object) -> tuple[Level, str]:
    del old, new
    return Level.PATCH, "reworded"


def _refusal_class(old: RefusalClass | None, new: RefusalClass | None) -> tuple[Level, str]:
    stricter = old is not None and new is not None and new.strictness > old.strictness
    text = f"`{_show(old)}` became `{_show(new)}`"
    if stricter:
        return Level.MAJOR, f"{text}, which is stricter"
    return Level.REFUSED, f"{text}, which loosens it; add a new code instead"


def _reuse(old: object, new: object) -> tuple[Level, str]:
    return Level.REFUSED, f"`{_show(old)}` became `{_show(new)}`, which reuses the code"


def _deprecated(old: object, new: object) -> tuple[Level, str]:
    del new
    if old:
        return Level.REFUSED, "a retired code came back, which reuses it"
    return Level.MINOR, "deprecated"


def _obligations(old: Any, new: Any) -> tuple[Level, str]:
    lost = [duty for duty in old if duty not in new]
    if lost:
        return Level.REFUSED, f"drops {', '.join(lost)}; a duty is never taken back"
    return Level.MAJOR, f"`{_show(old)}` became `{_show(new)}`"


def _members(old: Any, new: Any) -> tuple[Level, str]:
    lost, added = [m for m in old or () if m not in (new or ())], [*(new or ())]
    gained = [member for member in added if member not in (old or ())]
    text = "; ".join(
        f"{verb} {', '.join(map(str, members))}"
        for verb, members in (("lost", lost), ("gained", gained))
        if members
    )
    if lost:
        return Level.MAJOR, text
    return (Level.MINOR, text) if gained else (Level.PATCH, "reworded")


# Aliases are compared as phrases, across codes. The code itself is the key.
_JUDGES: Mapping[str, _Judge] = {
    "family": _always(Level.MAJOR),
    "title": _wording,
    "description": _wording,
    "effect": _reuse,
    "refusal_class": _refusal_class,
    "severity": _always(Level.MINOR),
    "advice": _always(Level.MAJOR),
    "retry_scope": _always(Level.MAJOR),
    "decided": _reuse,
    "parent": _always(Level.MAJOR),
    "grants": _always(Level.MAJOR),
    "obligations": _obligations,
    "surfaces": _members,
    "http": _always(Level.MAJOR),
    "since": _reuse,
    "stability": _always(Level.MINOR),
    "deprecated": _deprecated,
    "deprecated_since": _always(Level.MINOR),
    "replacement": _always(Level.MINOR),
    "evidence": _members,
    "xref": _wording,
    "examples": _wording,
}
