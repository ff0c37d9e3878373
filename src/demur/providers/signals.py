"""Signals, and the meaning of native values: one data file per system, checked when loaded.

`data/<system>.json` lists the signals of a system and the known values of each. The meaning of
a value stands there, never in the code of a reader.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from demur.codes.loading import registry_or_core
from demur.codes.vocabulary import RefusalClass, Surface
from demur.errors import DemurError, ManyProblemsError, Problem
from demur.model.refusal import Refusal
from demur.providers.node import Node
from demur.providers.shape import ResponseShape


class SignalOutcome(StrEnum):
    """The meaning of a native value.

    `refusal`: refused. `not_judged`: a guard failed or checked only a part. `detect_only`:
    something was detected and allowed. `not_a_refusal`: none of these.
    """

    REFUSAL = "refusal"
    NOT_JUDGED = "not_judged"
    DETECT_ONLY = "detect_only"
    NOT_A_REFUSAL = "not_a_refusal"


_RANK = {
    SignalOutcome.REFUSAL: 3,
    SignalOutcome.NOT_JUDGED: 2,
    SignalOutcome.DETECT_ONLY: 1,
    SignalOutcome.NOT_A_REFUSAL: 0,
}


class Signal(NamedTuple):
    """One native signal: its source, its place, its verbatim value and its meaning.

    `name` is the source (`anthropic.messages`); `native` is the original value at `path`.
    `code` is a registered code, or None if the outcome needs none. An empty `detail` is built
    from path and value. `served_by` names the model that answered instead. `confidence` is
    set for matched words only, never for a typed value. `refusal_class` is the class of the
    code and ranks signals; the registry decides. `refusal` is an envelope of demur, passed on
    unchanged. `is_final` stops other readers, even if nothing was refused: this signal is more
    exact than the value they would read. If that holds for a part of the answer, `rest` is
    the shape of the rest, which other readers get instead.
    """

    name: str
    path: str
    native: Any
    code: str | None
    outcome: SignalOutcome = SignalOutcome.REFUSAL
    detail: str = ""
    evidence: Mapping[str, Any] = {}
    surface: Surface | None = None
    served_by: str | None = None
    confidence: float | None = None
    request_id: str | None = None
    refusal_class: RefusalClass | None = None
    refusal: Refusal | None = None
    is_final: bool = False
    rest: ResponseShape | None = None

    @property
    def must_report(self) -> bool:
        """Whether the caller must be told: refused, or not judged."""
        return self.outcome in {SignalOutcome.REFUSAL, SignalOutcome.NOT_JUDGED}

    @property
    def weight(self) -> tuple[int, int]:
        """The rank of the signal: by outcome, then by class."""
        strictness = 0 if self.refusal_class is None else self.refusal_class.strictness
        return _RANK[self.outcome], strictness


def max_signal(signals: Iterable[Signal | None]) -> Signal | None:
    """Return the deciding signal: refused before not judged before detected.

    Among refusals the strictest class wins, and among equals the first.
    """
    found = [signal for signal in signals if signal is not None]
    return max(found, key=lambda signal: signal.weight, default=None)


SCHEMA_VERSION = "provider_signals.v1"
UNSPECIFIED_CODE = "FILTERED_UNSPECIFIED"
ANY_VALUE = "*"
_MAX_VALUE_LENGTH = 1000
_FOLDER = resources.files("demur.providers") / "data"
_POLICY_WORDS = re.compile(
    r"abus|anonymi|ban(?!d)|block|censor|classif|complian|den(?:y|ied|ial)|disallow|filter|flag|forbid"
    r"|guard|harm|illegal|inspect|interven|jailbr|moderat|nsfw|polic|prohib|recit|refus|reject"
    r"|restrict|safe|sanit|sensitiv|spii|terms|toxic|unsafe|violat",
    re.IGNORECASE,
)


class MappingError(ManyProblemsError):
    """A mapping file that cannot be used."""


class SdkType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an SDK declares the values of a field; `make drift` looks there for new ones.

    `at` is `module:Name` for a Literal alias or an enum, `module:Model.field` for a typed field,
    and `service/Shape` for a shape of botocore.
    """

    package: str
    at: str


class NativeValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known native value and its meaning. `*` is any value of a free-text field."""

    value: str
    outcome: SignalOutcome
    code: str | None = None
    refusal_class: RefusalClass | None = msgspec.field(default=None, name="class")
    meaning: str = ""


class NativeField(msgspec.Struct, frozen=True, eq=False, kw_only=True, forbid_unknown_fields=True):
    """One native signal: its path and its known values.

    `unknown` gives the meaning of unlisted values. `filtered`: the field only reports blocks,
    so any value is a block. `policy_looking`: a value is a block if it looks like one, because
    the field has other uses. `not_a_refusal`: the field alone never reports a block.
    """

    id: str
    path: str
    source: str
    meaning: str
    values: tuple[NativeValue, ...]
    unknown: Literal["filtered", "policy_looking", "not_a_refusal"]
    evidence: tuple[Literal["S", "D", "I", "M", "X"], ...]
    trap: str = ""
    surface: Surface | None = None
    closed: bool = False
    sdk: tuple[SdkType, ...] = ()

    def interpret(self, native: str | None) -> "Interpretation":
        """Return the meaning of `native`, listed or not."""
        native = None if native is None else native[:_MAX_VALUE_LENGTH]
        index = _values_by_name(self)
        known = index.get(_fold_value(native or "")) or index.get(ANY_VALUE)
        if known is not None:
            meaning = (known.code, known.refusal_class, known.meaning)
            return Interpretation(self, known.outcome, *meaning)
        suspect = self.unknown == "policy_looking" and looks_like_policy(native)
        if suspect or self.unknown == "filtered":
            blocked = (SignalOutcome.REFUSAL, UNSPECIFIED_CODE, RefusalClass.SOFT_BLOCK)
            return Interpretation(self, *blocked, known=False)
        return Interpretation(self, SignalOutcome.NOT_A_REFUSAL, None, None, "", False)


class Interpretation(NamedTuple):
    """The meaning of a native value, from the mapping."""

    field: NativeField
    outcome: SignalOutcome
    code: str | None
    refusal_class: RefusalClass | None
    meaning: str = ""
    known: bool = True

    def to_signal(self, node: Node, **more: Any) -> Signal:
        """Return the signal at `node`; `more` adds to or replaces fields of the mapping."""
        said: dict[str, Any] = {
            "name": self.field.source,
            "path": node.path,
            "native": node.raw,
            "code": self.code,
            "outcome": self.outcome,
            "surface": self.field.surface,
            "refusal_class": self.refusal_class,
        }
        return Signal(**{**said, **more})


class ProviderSystem(
    msgspec.Struct, frozen=True, eq=False, kw_only=True, forbid_unknown_fields=True
):
    """The mapping of one provider or framework."""

    schema_version: Literal["provider_signals.v1"]
    system: str
    title: str
    kind: Literal["model", "framework"]
    signals: tuple[NativeField, ...]
    packages: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> NativeField:
        """Return the signal with the id `name`."""
        return _fields_by_id(self)[name]

    def interpret(self, name: str, native: str | None) -> Interpretation:
        """Return the meaning of `native` as a value of the signal `name`."""
        return self[name].interpret(native)


@cache
def load_system(name: str) -> ProviderSystem:
    """Return the mapping of the system `name`, read once from the package's data.

    Raises:
        MappingError: The file does not exist, or breaks a rule.
    """
    file = _FOLDER / f"{name}.json"
    if not file.is_file():
        help_text = f"one of {', '.join(list_systems())}"
        raise MappingError(f"there is no mapping of `{name}`", help=help_text)
    return read_system(file.name, file.read_bytes())


def interpret(system: str, name: str, native: str | None) -> Interpretation:
    """Return the meaning of `native` as a value of the signal `name` of a system."""
    return load_system(system)[name].interpret(native)


def list_systems() -> tuple[str, ...]:
    """Return the names of all systems that have a mapping, sorted."""
    names = (file.name for file in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def read_system(where: str, raw: bytes) -> ProviderSystem:
    """Return the mapping in a file's bytes; `where` names the file in errors.

    Raises:
        MappingError: It is not a mapping, or has an unregistered code or a wrong class.
    """
    try:
        read = msgspec.json.decode(raw, type=ProviderSystem)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        said = str(error)
        raise MappingError(said[:1].lower() + said[1:], where=where) from error
    problems = _find_problems(read, where)
    if problems:
        raise MappingError.from_problems(problems)
    return read


def _find_problems(read: ProviderSystem, where: str) -> list[Problem]:
    found: list[Problem] = []
    seen: set[str] = set()
    for field in read.signals:
        place = f"{where}: {field.id}"
        if field.id in seen:
            found.append(Problem(place, "the signal appears twice"))
        seen.add(field.id)
        words = [_fold_value(value.value) for value in field.values]
        twice = {word for word in words if words.count(word) > 1}
        found += [Problem(place, f"the value `{word}` appears twice") for word in sorted(twice)]
        for value in field.values:
            found += _value_problems(value, f"{place}: {value.value}")
    return found


def _value_problems(value: NativeValue, place: str) -> list[Problem]:
    needs = value.outcome in {SignalOutcome.REFUSAL, SignalOutcome.NOT_JUDGED}
    if value.code is None:
        return [Problem(place, f"`{value.outcome}` needs a code")] if needs else []
    try:
        entry = registry_or_core()[value.code]
    except DemurError as error:
        return [Problem(place, error.problem, error.help)]
    found = []
    if value.refusal_class != entry.refusal_class:
        found.append(Problem(place, f"the class of `{value.code}` is {entry.refusal_class}"))
    if needs and entry.decided != (value.outcome is SignalOutcome.REFUSAL):
        found.append(Problem(place, f"`{value.code}` does not say `{value.outcome}`"))
    return found


def looks_like_policy(native: str | None) -> bool:
    """Return whether an unlisted value looks as if content was stopped."""
    return native is not None and _POLICY_WORDS.search(native[:_MAX_VALUE_LENGTH]) is not None


def _fold_value(native: str) -> str:
    """Return a value without case, hyphens or enum name: SDKs differ in these."""
    return native.rpartition(".")[2].casefold().replace("-", "_").replace("/", "_")


@cache
def _values_by_name(field: NativeField) -> Mapping[str, NativeValue]:
    return MappingProxyType({_fold_value(value.value): value for value in field.values})


@cache
def _fields_by_id(read: ProviderSystem) -> Mapping[str, NativeField]:
    return MappingProxyType({field.id: field for field in read.signals})
