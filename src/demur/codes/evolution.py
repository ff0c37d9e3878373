"""Compare two versions of a registry: every change, and how much it breaks.

Levels: `patch` changes wording, `minor` adds, `major` changes what consumers rely on, and
`refused` breaks the contract: to delete, reuse, retarget or loosen a code is never allowed.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from demur.codes.document import RegistryDocument, read_document
from demur.codes.entry import Entry
from demur.codes.registry import CORE_PATH, Registry, fold_phrase, inherit_fields, parse_version
from demur.errors import RegistryError


class ChangeLevel(IntEnum):
    """How much a change breaks for consumers of the codes. Only the order of numbers matters."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3
    REFUSED = 4


class RegistryChange(NamedTuple):
    """One difference: how much it breaks, where, and what it is."""

    level: ChangeLevel
    subject: str
    text: str


class Evolution(NamedTuple):
    """All differences between two registries, the most breaking first."""

    old_version: str
    new_version: str
    changes: tuple[RegistryChange, ...]

    @property
    def level(self) -> ChangeLevel:
        """The level of the most breaking change."""
        return max((change.level for change in self.changes), default=ChangeLevel.NONE)

    @property
    def version_fits(self) -> bool:
        """Whether the new version number is high enough for the changes."""
        old, new = parse_version(self.old_version), parse_version(self.new_version)
        return {
            ChangeLevel.NONE: new >= old,
            ChangeLevel.PATCH: new > old,
            ChangeLevel.MINOR: new[:2] > old[:2],
            ChangeLevel.MAJOR: new[:1] > old[:1],
            ChangeLevel.REFUSED: False,
        }[self.level]


def compare_registries(old: RegistryDocument, new: RegistryDocument) -> Evolution:
    """Return the changes from `old` to `new`, two files of one registry.

    Raises:
        RegistryError: The files belong to different domains.
    """
    if old.domain != new.domain:
        problem = f"`{old.domain or 'core'}` and `{new.domain or 'core'}` are different registries"
        raise RegistryError(problem, where=new.where, help="compare two versions of one registry")
    before, after = _entry_fields(old), _entry_fields(new)
    changes = [*_code_changes(before, after)]
    changes += _phrase_changes(_phrase_owners(old, before), _phrase_owners(new, after))
    changes.sort(key=lambda change: (-change.level, change.subject, change.text))
    return Evolution(old.version, new.version, tuple(changes))


_Fields = Mapping[str, Any]
_Changes = Iterator[RegistryChange]


def _entry_fields(document: RegistryDocument) -> dict[str, _Fields]:
    """Return the fields of each code, with inherited ones filled in.

    The registry's rules are not checked: one that dropped a parent must still be comparable.
    """
    if document.domain is None:
        return {row.code: row.fields for row in document.rows}
    core = Registry(read_document(CORE_PATH))
    parents = {row.code: core.get(str(row.fields.get("parent"))) for row in document.rows}
    rows = ((row, parents[row.code]) for row in document.rows)
    return {row.code: inherit_fields(row, top) if top else row.fields for row, top in rows}


def _phrase_owners(document: RegistryDocument, entries: Mapping[str, _Fields]) -> dict[str, str]:
    owners = {fold_phrase(phrase): code for phrase, code in document.phrases.items()}
    for code, fields in entries.items():
        owners.update({fold_phrase(phrase): code for phrase in fields.get("aliases", ())})
    return owners


def _code_changes(before: Mapping[str, _Fields], after: Mapping[str, _Fields]) -> _Changes:
    for code in sorted(before.keys() - after.keys()):
        text = "deleted; deprecate it instead, codes are for ever"
        yield RegistryChange(ChangeLevel.REFUSED, code, text)
    for code in sorted(after.keys() - before.keys()):
        yield RegistryChange(ChangeLevel.MINOR, code, "added")
    for code in sorted(before.keys() & after.keys()):
        for field in _COMPARED:
            old, new = before[code].get(field), after[code].get(field)
            if old != new:
                level, text = _judge_field(field, old, new)
                yield RegistryChange(level, code, f"{field}: {text}")


def _phrase_changes(before: Mapping[str, str], after: Mapping[str, str]) -> _Changes:
    for phrase, code in sorted(before.items()):
        if phrase not in after:
            yield RegistryChange(ChangeLevel.MAJOR, code, f"aliases: `{phrase}` removed")
        elif after[phrase] != code:
            text = f"aliases: `{phrase}` retargeted to `{after[phrase]}`"
            yield RegistryChange(ChangeLevel.REFUSED, code, text)
    for phrase in sorted(after.keys() - before.keys()):
        yield RegistryChange(ChangeLevel.MINOR, after[phrase], f"aliases: `{phrase}` added")
        for older, code in sorted(before.items()):
            if older in phrase and code != after[phrase]:
                text = f"aliases: `{phrase}` takes texts from `{older}` of `{code}`"
                yield RegistryChange(ChangeLevel.MAJOR, after[phrase], text)


_REUSED = ("effect", "decided", "since")
_WORDING = ("title", "description", "xref", "examples")
_MEMBERS = ("surfaces", "evidence")
_MINOR = ("severity", "stability", "deprecated_since", "replacement")
# Aliases are compared as phrases, across codes. The code itself is the key.
_COMPARED = tuple(field for field in Entry._fields if field not in {"code", "aliases"})


def _judge_field(field: str, old: Any, new: Any) -> tuple[ChangeLevel, str]:
    """Return how much the changed value of a field breaks, and the change in words."""
    level = ChangeLevel.MINOR if field in _MINOR else ChangeLevel.MAJOR
    text = f"`{_format_value(old)}` became `{_format_value(new)}`"
    if field in _WORDING:
        level, text = ChangeLevel.PATCH, "reworded"
    elif field in _REUSED:
        level, text = ChangeLevel.REFUSED, f"{text}, which reuses the code"
    elif field in _MEMBERS:
        level, text = _judge_members(old or (), new or ())
    elif field == "deprecated" and old:
        level, text = ChangeLevel.REFUSED, "a retired code came back, which reuses it"
    elif field == "deprecated":
        level, text = ChangeLevel.MINOR, "deprecated"
    elif field == "refusal_class" and old and new and new.strictness > old.strictness:
        text = f"{text}, which is stricter"
    elif field == "refusal_class":
        level, text = ChangeLevel.REFUSED, f"{text}, which loosens it; add a new code instead"
    elif field == "obligations" and (lost := [one for one in old if one not in new]):
        level, text = (
            ChangeLevel.REFUSED,
            f"drops {', '.join(lost)}; an obligation is never taken back",
        )
    return level, text


def _format_value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _judge_members(old: Collection[str], new: Collection[str]) -> tuple[ChangeLevel, str]:
    lost = [str(member) for member in old if member not in new]
    gained = [str(member) for member in new if member not in old]
    changes = (("lost", lost), ("gained", gained))
    text = "; ".join(f"{verb} {', '.join(members)}" for verb, members in changes if members)
    if lost:
        return ChangeLevel.MAJOR, text
    return (ChangeLevel.MINOR, text) if gained else (ChangeLevel.PATCH, "reworded")
