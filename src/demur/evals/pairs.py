"""Preference pairs: a prompt, the answer to prefer, the answer to avoid, and their origin.

A file of pairs is JSON lines in the layout that TRL's `DPOTrainer` reads, as plain text or as
messages. An extra column, `meta`, says why the pair exists; trainers ignore it. Text is
stripped of secrets and personal data before it is kept.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from demur.errors import InputError, ManyProblemsError, Problem, error_reason
from demur.evals.leaks import NearTextIndex
from demur.evals.line_files import parse_lines, replace_file
from demur.guards.personal_data import personal_data_search
from demur.guards.secret_formats import FORMATTED_SECRETS, PRIVATE_KEYS
from demur.guards.secret_values import ASSIGNED_SECRETS, LOOSE_SECRETS
from demur.model.finding import Action

PairReason: TypeAlias = Literal["false_refusal", "missed_harm", "kept_help", "kept_refusal"]
# The behaviour that a pair teaches.
_TEACHES: dict[PairReason, str] = {
    "false_refusal": "help",
    "kept_help": "help",
    "missed_harm": "refuse",
    "kept_refusal": "refuse",
}
_PAIR_COLUMNS = ("prompt", "chosen", "rejected")
_ROLES = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}


class PairsError(ManyProblemsError):
    """A file of pairs that cannot be used; `problems` lists every problem."""


class PairMeta(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a pair: the row, the run, the suite, and the authors of both answers.

    `chosen_by` is `template`, `edit`, `refusal` (composed by demur), `better:` and a target, or
    the target that was measured; `rejected_by` is that target, `template`, or `twin`. An answer
    from a store is `recorded`, and a refusal of its decision is by `demur`.
    """

    row_id: str
    why: PairReason
    chosen_by: str
    rejected_by: str
    run: str = ""
    suite: str = ""
    suite_digest: str = ""
    category: str = ""
    pattern: str = ""
    language: str = "en"


class PreferencePair(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt, the answer to prefer, and the answer to avoid."""

    prompt: str
    chosen: str
    rejected: str
    meta: PairMeta | None = None


class SkippedRow(NamedTuple):
    """A row without a pair, the kind of reason, and the reason itself."""

    row_id: str
    kind: str
    reason: str


def drop_duplicates(
    pairs: Iterable[PreferencePair], skipped: list[SkippedRow]
) -> Iterator[PreferencePair]:
    """Yield pairs without near duplicates of the same kind; record the skipped ones."""
    known: dict[str | None, NearTextIndex] = {}
    for pair in pairs:
        near = known.setdefault(pair.meta.why if pair.meta else None, NearTextIndex())
        name = pair.meta.row_id if pair.meta else f"pair {len(near) + 1}"
        found = near.find_near(pair.prompt)
        if found is None:
            near.add_text(name, pair.prompt)
            yield pair
        else:
            skipped.append(SkippedRow(name, "duplicate", str(found)))


def balance_pairs(
    pairs: Iterable[PreferencePair], skipped: list[SkippedRow]
) -> list[PreferencePair]:
    """Return as many pairs that teach to help as to refuse, spread over all categories.

    Records the skipped pairs. If there is only one kind, all of its pairs stay.
    """
    kinds: dict[str, list[PreferencePair]] = {"help": [], "refuse": []}
    for pair in pairs:
        assert pair.meta is not None
        kinds[_TEACHES[pair.meta.why]].append(pair)
    fewest = min(len(of_kind) for of_kind in kinds.values())
    kept: list[PreferencePair] = []
    for of_kind in kinds.values():
        order = list(_alternate_categories(of_kind))
        most = fewest or len(order)
        kept += order[:most]
        skipped += (
            SkippedRow(pair.meta.row_id, "balance", f"there are {fewest} pairs of the other kind")
            for pair in order[most:]
            if pair.meta
        )
    return kept


def _alternate_categories(pairs: Iterable[PreferencePair]) -> Iterator[PreferencePair]:
    """Return the pairs with the categories taking turns."""
    turns: Counter[str] = Counter()
    placed: list[tuple[int, int, PreferencePair]] = []
    for pair in pairs:
        category = pair.meta.category if pair.meta else ""
        turns[category] += 1
        placed.append((turns[category], len(placed), pair))
    return (pair for _, _, pair in sorted(placed, key=lambda one: one[:2]))


def encode_pair(pair: PreferencePair, *, chat: bool = False) -> bytes:
    """Return a pair as one line of JSON, with plain texts or messages."""
    row: dict[str, Any] = {name: getattr(pair, name) for name in _PAIR_COLUMNS}
    if chat:
        row = {name: [{"role": _ROLES[name], "content": row[name]}] for name in _PAIR_COLUMNS}
    if pair.meta is not None:
        row["meta"] = pair.meta
    return msgspec.json.encode(row)


def check_overwrite(path: Path, *, force: bool) -> None:
    """Refuse to overwrite an existing file, unless forced.

    Raises:
        InputError: The file exists.
    """
    if path.exists() and not force:
        help_text = "choose another file, or replace it with `--force`"
        raise InputError("the file already exists", where=str(path), help=help_text)


def write_pairs(pairs: Iterable[PreferencePair], path: Path | str, *, chat: bool = False) -> None:
    """Write a file of pairs atomically.

    Raises:
        InputError: demur cannot write the file.
    """
    with replace_file(Path(path), "the pairs", InputError) as file:
        file.writelines(encode_pair(pair, chat=chat) + b"\n" for pair in pairs)


def read_pairs(path: Path | str) -> tuple[list[PreferencePair], bool]:
    """Return the pairs in a file, and whether they are written as messages.

    Raises:
        PairsError: The file cannot be read, or some lines are not pairs.
    """
    example = '{"prompt": "…", "chosen": "…", "rejected": "…"}'
    found = parse_lines(path, "the pairs", _parse_pair, PairsError, example=example)
    if not found:
        raise PairsError.from_problems([Problem(str(path), "the file holds no pairs")])
    if len({chat for _, chat in found}) > 1:
        problem = "the file mixes plain texts and messages"
        raise PairsError.from_problems([Problem(str(path), problem)])
    return [pair for pair, _ in found], found[0][1]


def _parse_pair(fields: dict[str, Any]) -> tuple[PreferencePair, bool]:
    chat = isinstance(fields.get("prompt"), list)
    texts = {name: _column_text(name, fields.get(name), chat=chat) for name in _PAIR_COLUMNS}
    meta = fields.get("meta")
    try:
        origin = None if meta is None else msgspec.convert(meta, PairMeta)
    except msgspec.ValidationError as error:
        raise InputError(f"`meta` is not valid: {error_reason(error)}") from error
    return PreferencePair(**texts, meta=origin), chat


def _column_text(name: str, value: Any, *, chat: bool) -> str:
    """Return the text of a column; a column of messages has exactly one."""
    if chat:
        whole = isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping)
        if not whole or value[0].get("role") != _ROLES[name]:
            role = _ROLES[name]
            raise InputError(f"`{name}` must be a list of one message with the role `{role}`")
        value = value[0].get("content")
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"`{name}` must be a non-empty string")
    return value


MAX_TEXT_LENGTH = 8_000
REMOVED_MARK = "[removed]"

_SECRET_FINDERS = (
    FORMATTED_SECRETS,
    PRIVATE_KEYS,
    ASSIGNED_SECRETS,
    LOOSE_SECRETS,
    personal_data_search(Action.WARN),
)
# Email addresses, and numbers long enough to be a phone or account number.
_PERSONAL = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}\.\w{2,}|\+?\d[\d ().-]{7,30}\d")
# Look past the cut, so that a secret that it would split is still recognised.
_LOOKAHEAD = 400


def clean_text(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Return a text without credentials and personal data, truncated if it is too long."""
    window = text[: max_length + _LOOKAHEAD].encode("utf-8", "replace").decode("utf-8")
    pieces: list[str] = []
    place = 0
    for start, end in sorted(_find_private_spans(window)):
        if end <= place:
            continue
        if start >= place:
            pieces += [window[place:start], REMOVED_MARK]
        place = end
    shown = "".join([*pieces, window[place:]]).strip()
    return shown if len(shown) <= max_length else f"{shown[: max_length - 1].rstrip()}…"


def _find_private_spans(window: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of secrets and personal data."""
    for seeker in _SECRET_FINDERS:
        for seen in seeker.search(window, 0, True).matches:
            yield seen.start, seen.end
    for found in _PERSONAL.finditer(window):
        yield found.span()
