"""All reason codes that are known together: the core and what organisations added."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from demur.codes.document import SCHEMA_VERSION, RegistryDocument, RegistryRow, read_document
from demur.codes.entry import Entry, Examples
from demur.codes.names import local_name
from demur.codes.phrases import PhraseIndex
from demur.codes.rules import check_document, check_entry, check_phrase, check_row
from demur.codes.vocabulary import Stability
from demur.errors import InputTypeError, Problem, RegistryError, UnknownCodeError
from demur.source.suggest import did_you_mean

__all__ = ["CORE_PATH", "Registry", "inherit_fields"]

CORE_PATH = Path(__file__).with_name("reason_codes.v1.json")


class Registry:
    """A checked set of reason codes. Immutable; safe to share between threads.

    `Registry.load()` is the core alone; `Registry.load("acme.json")` adds an
    organisation's file. The order of the files makes no difference.
    """

    def __init__(
        self, core: RegistryDocument, organisations: Iterable[RegistryDocument] = ()
    ) -> None:
        self._sources = (core, tuple(_distinct_documents(organisations)))
        build = _RegistryBuilder(*self._sources)
        if build.problems:
            raise RegistryError.from_problems(build.problems)
        self._entries = MappingProxyType(build.entries)
        self._phrases = MappingProxyType(build.phrases)
        self.versions: Mapping[str, str] = MappingProxyType(build.versions)

    @classmethod
    def load(cls, *paths: Path | str) -> Self:
        """Return the core registry plus the organisations' files at `paths`.

        Raises:
            RegistryError: A file cannot be read or breaks a rule.
        """
        return cls(read_document(CORE_PATH), [read_document(path) for path in paths])

    @classmethod
    def from_document(cls, document: RegistryDocument) -> Self:
        """Return the registry of one file: a core alone, or the core plus an organisation's file.

        Raises:
            RegistryError: The file breaks a rule.
        """
        if document.domain is None:
            return cls(document)
        return cls(read_document(CORE_PATH), [document])

    def __getitem__(self, code: str) -> Entry:
        """Return the entry of `code`.

        Raises:
            UnknownCodeError: No loaded registry holds the code.
        """
        if not isinstance(code, str):
            raise InputTypeError.wrong_type("a code", "a string", code)
        entry = self._entries.get(code)
        if entry is None:
            hint = did_you_mean(code, self._entries)
            count = f"`demur codes list` shows all {len(self)}"
            raise UnknownCodeError(
                f"unknown reason code `{code[:80]}`", help=f"{hint} {count}" if hint else count
            )
        return entry

    def get(self, code: str) -> Entry | None:
        """Return the entry of `code`, or None if it is unknown."""
        return self._entries.get(code)

    def __contains__(self, code: object) -> bool:
        return code in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(
        self,
    ) -> tuple[type["Registry"], tuple[RegistryDocument, tuple[RegistryDocument, ...]]]:
        # Mapping proxies cannot be pickled; the documents can.
        return (type(self), self._sources)

    def __repr__(self) -> str:
        return f"<Registry {self.label}: {len(self)} codes>"

    @property
    def documents(self) -> tuple[RegistryDocument, tuple[RegistryDocument, ...]]:
        """The documents of this registry: the core's, and those of organisations."""
        return self._sources

    @property
    def label(self) -> str:
        """The schema and all versions, e.g. `reason_codes.v1@1.0.0+acme.com@2.3.0`."""
        core, *others = self.versions.items()
        return "+".join([f"{SCHEMA_VERSION}@{core[1]}", *(f"{name}@{v}" for name, v in others)])

    @property
    def phrases(self) -> Mapping[str, str]:
        """The code of every legacy phrase (casefolded)."""
        return self._phrases

    @cached_property
    def _phrase_index(self) -> PhraseIndex:
        return PhraseIndex(self._phrases)

    def code_of_phrase(self, text: str) -> str | None:
        """Return the code of the legacy phrase in `text`, or None."""
        return self._phrase_index.find(text)

    def children(self, code: str) -> tuple[Entry, ...]:
        """Return the entries whose parent is `code`."""
        return tuple(entry for entry in self if entry.parent == code)


def _distinct_documents(documents: Iterable[RegistryDocument]) -> list[RegistryDocument]:
    """Return the documents sorted by content, without duplicates."""
    by_content = {_content_key(document): document for document in documents}
    return [by_content[content] for content in sorted(by_content)]


def _content_key(document: RegistryDocument) -> str:
    """Return a key that ignores the file name and the order of entries and keys."""
    rows = sorted(json.dumps(row.fields, sort_keys=True) for row in document.rows)
    head = (document.domain, document.version, document.min_core, document.phrases)
    return json.dumps([*head, rows], sort_keys=True)


class _RegistryBuilder:
    """Turns documents into entries and collects every problem."""

    def __init__(self, core: RegistryDocument, organisations: Iterable[RegistryDocument]) -> None:
        self.problems: list[Problem] = []
        self.entries: dict[str, Entry] = {}
        self.phrases: dict[str, str] = {}
        self.versions = {"": core.version}
        self._places: dict[str, str] = {}
        self._add_core(core)
        core_entries = dict(self.entries)
        for document in organisations:
            self._add_organisation(document, core, core_entries)
        for code, entry in self.entries.items():
            self.problems += check_entry(entry, self._places[code], self.entries)

    def _add_core(self, core: RegistryDocument) -> None:
        for row in core.rows:
            missing = [name for name in Entry._fields if name not in row.fields]
            self.problems += [Problem(row.where, f"a core code needs `{name}`") for name in missing]
            if "/" in row.code:
                self.problems.append(Problem(row.where, "a core code stands without a domain"))
            if not missing:
                self._add_entry(row, dict(row.fields))
        self._add_phrases(core.phrases, core)

    def _add_organisation(
        self, document: RegistryDocument, core: RegistryDocument, core_entries: Mapping[str, Entry]
    ) -> None:
        self.problems += check_document(document, core.version)
        if document.domain is not None:
            if document.domain in self.versions:
                problem = f"`{document.domain}` is loaded twice, with different contents"
                self.problems.append(Problem(f"{document.where}: domain", problem))
            self.versions[document.domain] = document.version
        for row in document.rows:
            self.problems += check_row(row, document, core_entries)
            parent = core_entries.get(row.fields.get("parent", ""))
            if parent is not None and row.code not in core_entries:
                self._add_entry(row, inherit_fields(row, parent))
        self._add_phrases(document.phrases, document)

    def _add_entry(self, row: RegistryRow, fields: dict[str, Any]) -> None:
        if row.code in self.entries:
            first = self._places[row.code]
            self.problems.append(Problem(row.where, f"`{row.code}` stands twice: also at {first}"))
            return
        fields["examples"] = Examples(**fields["examples"])
        self._places[row.code] = row.where
        self.entries[row.code] = Entry(**fields)
        for phrase in fields["aliases"]:
            self._add_phrase(phrase, row.code, row.where)

    def _add_phrases(self, phrases: Mapping[str, str], document: RegistryDocument) -> None:
        for phrase, code in sorted(phrases.items()):
            where = f"{document.where}: phrases"
            if code not in self.entries:
                hint = did_you_mean(code, self.entries)
                self.problems.append(Problem(where, f"unknown reason code `{code}`", hint))
            self._add_phrase(phrase, code, where)

    def _add_phrase(self, phrase: str, code: str, where: str) -> None:
        folded = phrase.casefold()
        owner = self.phrases.setdefault(folded, code)
        self.problems += check_phrase(phrase, where, None if owner == code else owner)


def inherit_fields(row: RegistryRow, parent: Entry) -> dict[str, Any]:
    """Return the fields of an organisation's row, with missing ones taken from its parent."""
    own: dict[str, Any] = {
        "title": local_name(row.code).replace("_", " ").capitalize(),
        "stability": Stability.STABLE,
        "deprecated": False,
        "deprecated_since": None,
        "replacement": None,
        "aliases": (),
        "evidence": {},
        "xref": {},
        "examples": {},
    }
    complete = {**parent._asdict(), **own, **row.fields}
    # Grants that lift the parent do not lift a child of another class.
    if "grants" not in row.fields and complete["refusal_class"] is not parent.refusal_class:
        complete["grants"] = ()
    return complete
