"""The registry: every known reason code, from the core and from organisations.

Each check yields problems and none stops the others, so that an author sees all at once.
`PhraseIndex` finds legacy phrases. Almost no text holds one, so it first looks for a few short
fragments, chosen so that each phrase contains at least one of them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from demur.codes.document import (
    SCHEMA_VERSION,
    RegistryDocument,
    RegistryRow,
    read_document,
    scan_document,
)
from demur.codes.entry import Entry, Examples, is_domain, local_name, name_problem
from demur.codes.vocabulary import Advice, Effect, RefusalClass, Stability
from demur.errors import InputTypeError, Problem, RegistryError, UnknownCodeError
from demur.source.item import did_you_mean

REQUIRED_OF_ORGANISATIONS = ("code", "description", "parent", "since")

_Entries = Mapping[str, Entry]
_MIN_PHRASE_LENGTH = 6
_MAX_PHRASE_LENGTH = 200
_SPACES = re.compile(r"[ \t]{2,}|\t")
# `no loop detected` and `loop detected: none` say that nothing was refused.
_DENIALS = ("no ", "not ", "never ", "without ")
_DENIAL_BEFORE = re.compile(rf"(?:\A|[^a-z0-9])(?:{'|'.join(_DENIALS)})\Z")
_DENIAL_AFTER = re.compile(r"s?[\"']?\s*[:=]\s*(?:no|none|null|false|0)(?=\s*(?:\Z|[,;)\]}]))")
_MAX_DENIAL = 12
_HARD_ADVICE = (
    Advice.DO_NOT_RETRY,
    Advice.CHANGE_REQUEST,
    Advice.RESET_CONTEXT,
    Advice.ESCALATE_OPERATOR,
)


def check_document(document: RegistryDocument, core_version: str) -> Iterator[Problem]:
    """Yield the problems of an organisation's file as a whole."""
    where = f"{document.where}: domain"
    if document.domain is None:
        help_text = 'add `"domain": "example.com"`, a name you own, and write codes under it'
        yield Problem(where, "an organisation's registry needs a domain", help_text)
    elif not is_domain(document.domain):
        yield Problem(where, f"`{document.domain}` is not a domain", "like `example.com`")
    if document.min_core and parse_version(document.min_core) > parse_version(core_version):
        problem = f"needs core {document.min_core}, but this is core {core_version}"
        yield Problem(f"{document.where}: min_core", problem, "upgrade demur")


def parse_version(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, which compare like the version."""
    return tuple(int(part) for part in version.split("."))


def check_row(row: RegistryRow, document: RegistryDocument, core: _Entries) -> Iterator[Problem]:
    """Yield the problems of an organisation's row, before inherited fields are filled in."""
    for name in REQUIRED_OF_ORGANISATIONS:
        if row.fields.get(name) is None and name not in row.unread:
            yield Problem(row.where, f"an organisation's code needs `{name}`")
    domain, slash, local = row.code.rpartition("/")
    if not slash:
        problem = "redefines a core code" if row.code in core else "has no domain"
        yield Problem(row.where, problem, f"write it as `{document.domain or 'domain'}/{local}`")
    elif document.domain is not None and domain != document.domain:
        problem = f"belongs to `{domain}`, but this file speaks for `{document.domain}`"
        yield Problem(row.where, problem)
    parent = row.fields.get("parent")
    if parent is not None and parent not in core:
        hint = did_you_mean(parent, core) or "`demur codes list` shows them all"
        yield Problem(row.where, f"unknown parent `{parent}`: a parent is a core code", hint)


def check_entry(entry: Entry, where: str, known: Mapping[str, Entry]) -> Iterator[Problem]:
    """Yield the problems of a complete entry among the `known` ones."""
    if problem := name_problem(entry.code):
        yield Problem(where, f"bad name `{entry.code}`: {problem}")
    yield from _check_refusal(entry, where)
    yield from _check_grants(entry, where)
    yield from _check_deprecation(entry, where, known)
    if entry.parent is not None:
        if entry.parent in known:
            yield from _check_parent(entry, known[entry.parent], where)
        else:
            hint = did_you_mean(entry.parent, known)
            yield Problem(where, f"unknown parent `{entry.parent}`", hint)
    if _is_own_ancestor(entry, known):
        yield Problem(where, f"is its own ancestor through `{entry.parent}`")


def _check_refusal(entry: Entry, where: str) -> Iterator[Problem]:
    for name in ("refusal_class", "advice", "retry_scope"):
        present = getattr(entry, name) is not None
        if present != (entry.effect is Effect.REFUSE):
            verb = "must not have" if present else "needs"
            yield Problem(where, f"a code with effect `{entry.effect}` {verb} `{name}`")
    if entry.effect is Effect.REFUSE and entry.http < 400:
        yield Problem(where, f"HTTP status {entry.http} does not refuse", "4xx or 5xx")
    if entry.effect is Effect.ALLOW and entry.aliases:
        yield Problem(where, "a code that allows has no legacy phrases of refusals")


def _check_grants(entry: Entry, where: str) -> Iterator[Problem]:
    # INVARIANT: only a workflow block names grants, and a hard block advises no way around.
    if entry.grants and entry.refusal_class is not RefusalClass.WORKFLOW_BLOCK:
        yield Problem(where, "only a WORKFLOW_BLOCK can be lifted by grants", "leave `grants` out")
    if entry.refusal_class is RefusalClass.HARD_BLOCK and entry.advice not in _HARD_ADVICE:
        problem = f"a HARD_BLOCK cannot advise `{entry.advice}`: nothing lifts it"
        yield Problem(where, problem, f"one of {', '.join(_HARD_ADVICE)}")
    if entry.grants and not entry.decided:
        yield Problem(where, "no grant lifts a code without a judgement", "leave `grants` out")


def _check_deprecation(entry: Entry, where: str, known: Mapping[str, Entry]) -> Iterator[Problem]:
    if entry.deprecated != (entry.stability is Stability.DEPRECATED):
        yield Problem(where, "`deprecated` and `stability` disagree")
    if entry.deprecated and entry.deprecated_since is None:
        yield Problem(where, "a deprecated code needs `deprecated_since`")
    if not entry.deprecated and (entry.deprecated_since or entry.replacement):
        yield Problem(where, "only a deprecated code has `deprecated_since` or `replacement`")
    if entry.replacement is not None:
        target = known.get(entry.replacement)
        if target is None:
            hint = did_you_mean(entry.replacement, known)
            yield Problem(where, f"unknown replacement `{entry.replacement}`", hint)
        elif target.deprecated:
            yield Problem(where, f"the replacement `{target.code}` is deprecated itself")


def _check_parent(entry: Entry, parent: Entry, where: str) -> Iterator[Problem]:
    if entry.effect is not parent.effect:
        yield Problem(where, f"effect `{entry.effect}` differs from that of `{parent.code}`")
    if entry.decided != parent.decided:
        yield Problem(where, f"`decided` differs from that of `{parent.code}`")
    if (
        entry.refusal_class is not None
        and parent.refusal_class is not None
        and entry.refusal_class.strictness < parent.refusal_class.strictness
    ):
        problem = f"{entry.refusal_class} is weaker than {parent.refusal_class} of `{parent.code}`"
        yield Problem(where, problem, "a child may tighten its parent's class, never weaken it")
    if lost := [one for one in parent.obligations if one not in entry.obligations]:
        yield Problem(where, f"drops the obligation `{lost[0]}` of `{parent.code}`")
    if entry.refusal_class is parent.refusal_class and not set(entry.grants) <= set(parent.grants):
        problem = f"names a grant that does not lift `{parent.code}`"
        yield Problem(where, problem, "a child may be harder to lift than its parent, not easier")


def _is_own_ancestor(entry: Entry, known: Mapping[str, Entry]) -> bool:
    ancestors: set[str] = set()
    ancestor = entry.parent
    while ancestor is not None and ancestor in known and ancestor not in ancestors:
        ancestors.add(ancestor)
        ancestor = known[ancestor].parent
    return entry.code in ancestors


def fold_phrase(text: str) -> str:
    """Return `text` as phrases are compared: casefolded, with one space for a run of spaces."""
    folded = text.casefold()
    return _SPACES.sub(" ", folded) if "  " in folded or "\t" in folded else folded


def holds_phrase(folded: str, phrase: str) -> bool:
    """Return whether a folded text holds a phrase that it does not deny. Linear in the text."""
    start = folded.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        denied = folded.endswith(_DENIALS, 0, start) and _DENIAL_BEFORE.search(
            folded[max(start - _MAX_DENIAL, 0) : start]
        )
        if not denied and not _DENIAL_AFTER.match(folded, end, end + 40):
            return True
        start = folded.find(phrase, end)
    return False


def check_phrase(phrase: str, where: str, owner: str | None) -> Iterator[Problem]:
    """Yield the problems of a legacy phrase; `owner` is the code that already has it."""
    folded = phrase.casefold()
    shown = f"phrase `{phrase[:60]}`"
    if owner is not None:
        help_text = "a phrase keeps its meaning for ever; choose a longer, more specific one"
        yield Problem(where, f"{shown} is already taken by `{owner}`", help_text)
    if not _MIN_PHRASE_LENGTH <= len(phrase) <= _MAX_PHRASE_LENGTH:
        problem = f"{shown} must have {_MIN_PHRASE_LENGTH} to {_MAX_PHRASE_LENGTH} characters"
        yield Problem(where, problem)
    if phrase != phrase.strip() or not phrase.isprintable():
        yield Problem(where, f"{shown} must be one line without outer spaces")
    if "refused:" in folded:
        yield Problem(where, f"{shown} contains `refused:`, which marks a canonical line")


_FRAGMENT_LENGTH = 5


class _RankedPhrase(NamedTuple):
    rank: int
    text: str
    code: str


_FragmentGroup = tuple[str, tuple[_RankedPhrase, ...]]


def rank_phrases(phrases: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return phrases and their codes; of several in one text, the first wins."""
    # INVARIANT: the longest phrase wins, ties by code name.
    return sorted(phrases.items(), key=lambda item: (-len(item[0]), item[1], item[0]))


class PhraseIndex:
    """Finds the code of a text by folded legacy phrases. Immutable; safe to share."""

    __slots__ = ("_groups",)

    def __init__(self, phrases: Mapping[str, str]) -> None:
        ordered = enumerate(rank_phrases(phrases))
        ranked = [_RankedPhrase(rank, text, code) for rank, (text, code) in ordered]
        self._groups = tuple(_choose_fragments(ranked))

    def find(self, text: str) -> str | None:
        """Return the code of the winning phrase in `text`, or None. Linear in the text."""
        folded = fold_phrase(text)
        best: _RankedPhrase | None = None
        for fragment, phrases in self._groups:
            if fragment in folded:
                for phrase in phrases:
                    if best is not None and best.rank < phrase.rank:
                        break
                    if holds_phrase(folded, phrase.text):
                        best = phrase
                        break
        return None if best is None else best.code


def _choose_fragments(phrases: Sequence[_RankedPhrase]) -> list[_FragmentGroup]:
    """Choose fragments greedily until each phrase is listed under exactly one."""
    holders: dict[str, list[_RankedPhrase]] = {}
    for phrase in phrases:
        for fragment in _list_fragments(phrase.text):
            holders.setdefault(fragment, []).append(phrase)
    uses = {fragment: len(group) for fragment, group in holders.items()}
    remaining = set(phrases)
    groups = []
    while remaining:
        fragment = max(uses, key=uses.__getitem__)
        group = [phrase for phrase in holders[fragment] if phrase in remaining]
        groups.append((fragment, tuple(group)))
        remaining.difference_update(group)
        for phrase in group:
            for part in _list_fragments(phrase.text):
                uses[part] -= 1
    return groups


def _list_fragments(phrase: str) -> list[str]:
    last = max(len(phrase) - _FRAGMENT_LENGTH, 0)
    return list(dict.fromkeys(phrase[at : at + _FRAGMENT_LENGTH] for at in range(last + 1)))


def read_organisations(paths: Iterable[Path | str]) -> list[RegistryDocument]:
    """Return the files of organisations.

    Raises:
        RegistryError: A file cannot be read; carries every problem of all files, those of
            their entries included.
    """
    readings = [scan_document(path) for path in paths]
    problems = [problem for reading in readings for problem in reading.problems]
    documents = [reading.document for reading in readings if reading.document is not None]
    if problems:
        reported = {problem.where for problem in problems}
        found = _RegistryBuilder(read_document(CORE_PATH), documents).problems
        problems += [problem for problem in found if problem.where not in reported]
        raise RegistryError.from_problems(problems)
    return documents


CORE_PATH = Path(__file__).with_name("reason_codes.v1.json")
_Sources = tuple[RegistryDocument, tuple[RegistryDocument, ...]]


class Registry:
    """A checked set of reason codes. Immutable; safe to share between threads.

    `Registry.load()` is the core alone; `Registry.load("acme.json")` adds an
    organisation's file. The order of the files makes no difference.
    """

    def __init__(
        self, core: RegistryDocument, organisations: Iterable[RegistryDocument] = ()
    ) -> None:
        # Sorted by content and without duplicates, so that the order of files does not matter.
        distinct = {_content_key(document): document for document in organisations}
        self._sources = (core, tuple(distinct[key] for key in sorted(distinct)))
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
        return cls(read_document(CORE_PATH), read_organisations(paths))

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
            help_text = f"{hint} {count}" if hint else count
            raise UnknownCodeError(f"unknown reason code `{code[:80]}`", help=help_text)
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

    def __reduce__(self) -> tuple[type["Registry"], _Sources]:
        # Mapping proxies cannot be pickled; the documents can.
        return (type(self), self._sources)

    def __repr__(self) -> str:
        return f"<Registry {self.label}: {len(self)} codes>"

    @property
    def documents(self) -> _Sources:
        """The documents of this registry: the core's, and those of organisations."""
        return self._sources

    @property
    def label(self) -> str:
        """The schema and all versions, e.g. `reason_codes.v1@1.0.0+acme.com@2.3.0`."""
        core, *others = self.versions.items()
        return "+".join([f"{SCHEMA_VERSION}@{core[1]}", *(f"{name}@{v}" for name, v in others)])

    @property
    def phrases(self) -> Mapping[str, str]:
        """The code of every legacy phrase, folded by `fold_phrase`."""
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

    def top_ancestor(self, code: str) -> str:
        """Return the code at the top above `code`: itself if it has no parent or is unknown."""
        entry = self._entries.get(code)
        return code if entry is None or entry.parent is None else self.top_ancestor(entry.parent)

    def descendants(self, code: str) -> tuple[str, ...]:
        """Return `code` and every code below it."""
        below = (one for child in self.children(code) for one in self.descendants(child.code))
        return (code, *below)


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
        self._unread: set[str] = set()
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
        self, document: RegistryDocument, core: RegistryDocument, core_entries: _Entries
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
            if row.unread:
                self._unread.add(row.code)
            elif parent is not None and row.code not in core_entries:
                self._add_entry(row, inherit_fields(row, parent))
        self._add_phrases(document.phrases, document)

    def _add_entry(self, row: RegistryRow, fields: dict[str, Any]) -> None:
        if row.code in self.entries:
            first = self._places[row.code]
            self.problems.append(Problem(row.where, f"`{row.code}` appears twice: also at {first}"))
            return
        fields["examples"] = Examples(**fields["examples"])
        self._places[row.code] = row.where
        self.entries[row.code] = Entry(**fields)
        for phrase in fields["aliases"]:
            self._add_phrase(phrase, row.code, row.where)

    def _add_phrases(self, phrases: Mapping[str, str], document: RegistryDocument) -> None:
        for phrase, code in sorted(phrases.items()):
            where = f"{document.where}: phrases"
            if code not in self.entries and code not in self._unread:
                hint = did_you_mean(code, self.entries)
                self.problems.append(Problem(where, f"unknown reason code `{code}`", hint))
            self._add_phrase(phrase, code, where)

    def _add_phrase(self, phrase: str, code: str, where: str) -> None:
        owner = self.phrases.setdefault(fold_phrase(phrase), code)
        self.problems += check_phrase(phrase, where, None if owner == code else owner)


def inherit_fields(row: RegistryRow, parent: Entry) -> dict[str, Any]:
    """Return the fields of an organisation's row, with missing ones taken from its parent."""
    own: dict[str, Any] = {
        "title": local_name(row.code).replace("_", " ").capitalize(),
        "stability": Stability.STABLE,
        "deprecated": False,
        **dict.fromkeys(("deprecated_since", "replacement")),
        "aliases": (),
        **{name: {} for name in ("evidence", "xref", "examples")},
    }
    complete = {**parent._asdict(), **own, **row.fields}
    # Grants that lift the parent do not lift a child of another class.
    if "grants" not in row.fields and complete["refusal_class"] is not parent.refusal_class:
        complete["grants"] = ()
    return complete
