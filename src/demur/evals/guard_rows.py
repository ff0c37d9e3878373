"""Rows to train a guard on: texts to hold and texts to allow, from files and from reviews.

Rows of one `group` say nearly the same, such as variations of one request. They are never parted
between training and checking, and count once. Rows without a `group` that differ in a few words
only are grouped by their texts, because rows made from a template say little more than one.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.detect.speech_acts import builtin_lexicon
from demur.errors import InputError, ManyProblemsError, Problem, shorten
from demur.evals.from_store import collect_reviewed
from demur.evals.leaks import normalize_text
from demur.evals.line_files import parse_lines, raise_problems
from demur.evals.pairs import SkippedRow
from demur.evals.suite import EvalSuite, make_suite
from demur.evals.suite_row import EvalRow
from demur.scorers.trained import MAX_TEXT_LENGTH, split_words
from demur.source.item import did_you_mean
from demur.store.store import Store
from demur.text.prose import fold_sentence, guess_language

GuardLabel: TypeAlias = Literal["hold", "allow"]
GUARD_LABELS: tuple[GuardLabel, ...] = ("hold", "allow")
DEFAULT_CODE = "TOPIC_DENIED"
MAX_ROWS = 50_000
MAX_FILE_BYTES = 256_000_000
MIN_GROUPS = 10
# Two texts are alike if they are the same but for so many words in one place, and what they share
# is most of each.
_MAX_SLOT_WORDS = 3
_MIN_SHARED_WORDS, _MIN_SHARED = 4, 0.57
_MIN_SHORT_SHARED_WORDS, _MIN_SHORT_SHARED = 3, 0.75
# Later words are compared as one, which must be the same.
_MAX_COMPARED_WORDS = 30
_FIELDS = ("text", "label", "code", "group")
_EXAMPLE = '{"text": "…", "label": "hold"}'
_CONTENT_PREFIX = "content_"
# Words of other row files for the two labels.
_OTHER_WORDS = {
    "hold": ("harmful", "unsafe", "block", "refuse", "deny", "escalate", "1", "true"),
    "allow": ("legitimate", "safe", "pass", "benign", "ok", "good", "0", "false"),
}


class GuardRowsError(ManyProblemsError):
    """Rows that no guard can be trained on; `problems` lists every problem."""


class GuardRow(NamedTuple):
    """A text and its label. `code` is that of a text to hold, `group` holds nearly equal texts."""

    text: str
    label: GuardLabel
    code: str = ""
    group: str = ""

    @property
    def group_key(self) -> tuple[str, str]:
        """The group that the row names; a row without one shares it with the same text."""
        return ("group", self.group) if self.group else ("text", self.plain_text)

    @property
    def plain_text(self) -> str:
        """The text without differences of case, punctuation and spaces."""
        return normalize_text(self.text) or self.text


def read_guard_rows(path: Path, registry: Registry) -> list[GuardRow]:
    """Return the rows of a file of JSON lines.

    Raises:
        GuardRowsError: The file or some of its lines cannot be used.
    """
    parse = partial(_parse_row, registry=registry)
    _check_size(path)
    return parse_lines(path, "the rows", parse, GuardRowsError, example=_EXAMPLE)


def _check_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        return
    if size > MAX_FILE_BYTES:
        problem = f"the file has {size // 1_000_000} MB, more than {MAX_FILE_BYTES // 1_000_000}"
        help_text = f"give a sample: at most {MAX_ROWS} rows of {MAX_TEXT_LENGTH} characters"
        raise GuardRowsError.from_problems([Problem(str(path), problem, help_text)])


def _parse_row(fields: dict[str, Any], registry: Registry) -> GuardRow:
    for name, value in fields.items():
        if name not in _FIELDS:
            help_text = did_you_mean(name, _FIELDS) or f"a row has {', '.join(_FIELDS)}"
            raise InputError(f"unknown field `{shorten(name, 60)}`", help=help_text)
        if not isinstance(value, str):
            raise InputError(f"`{name}` must be a string", help=f"write lines like {_EXAMPLE}")
    text, label, code = fields.get("text", ""), fields.get("label", ""), fields.get("code", "")
    if not text.strip():
        raise InputError("the row has no `text`", help=f"write lines like {_EXAMPLE}")
    if len(text) > MAX_TEXT_LENGTH:
        help_text = f"give the part that matters, at most {MAX_TEXT_LENGTH} characters"
        raise InputError(f"the text has {len(text)} characters", help=help_text)
    if label not in GUARD_LABELS:
        word = label.strip().casefold()
        meant = (name for name, words in _OTHER_WORDS.items() if word in words)
        help_text = f"write `{next(meant, 'hold` or `allow')}`"
        raise InputError(f"unknown label `{shorten(label, 60)}`", help=help_text)
    if code and code not in registry:
        problem = f"the code `{shorten(code, 60)}` is not registered"
        raise InputError(problem, help="`demur codes list`")
    return GuardRow(text, label, code, fields.get("group", ""))


def read_decision_texts(path: Path) -> dict[str, str]:
    """Return the texts of decisions by their ids, from a file of JSON lines.

    Raises:
        GuardRowsError: The file or some of its lines cannot be used.
    """
    _check_size(path)
    example = '{"decision_id": "01M7…", "text": "…"}'

    def parse_text(fields: dict[str, Any]) -> tuple[str, str]:
        name, text = fields.get("decision_id"), fields.get("text")
        if not isinstance(name, str) or not isinstance(text, str):
            problem = "the line has no `decision_id` or no `text`"
            raise InputError(problem, help=f"write lines like {example}")
        return name, text

    return dict(parse_lines(path, "the texts", parse_text, GuardRowsError, example=example))


class ReviewedRows(NamedTuple):
    """The rows of a store, the number of its reviews, and the decisions without a row."""

    rows: list[GuardRow]
    labels: int
    left_out: list[SkippedRow]


def collect_guard_rows(
    store: Store,
    *,
    tenant: str | None = None,
    since: str = "",
    code: str = "",
    texts: Mapping[str, str] | None = None,
    surface: Surface = Surface.INPUT,
) -> ReviewedRows:
    """Return rows from decisions that people reviewed.

    Missed harm and refusals that were right are rows to hold; false refusals and requests that
    were allowed rightly are rows to allow. With a `code`, only rows of that code are held.
    `texts` are those of decisions, by id, whose requests record none. Rows are what was said on the
    `surface`.
    """
    samples = collect_reviewed(store, tenant=tenant, since=since, texts=texts, surface=surface)
    left_out = list(samples.left_out)
    category = code.casefold().removeprefix(_CONTENT_PREFIX)
    rows: list[GuardRow] = []
    for row in samples.rows:
        label: GuardLabel = "hold" if row.label == "harmful" else "allow"
        if len(row.prompt) > MAX_TEXT_LENGTH:
            why = f"more than {MAX_TEXT_LENGTH} characters"
            left_out.append(SkippedRow(row.id, "too long", why))
        elif label == "hold" and category and row.category not in {"", category}:
            left_out.append(SkippedRow(row.id, "other code", f"held as `{row.category}`"))
        else:
            rows.append(GuardRow(row.prompt, label))
    return ReviewedRows(rows, samples.labels, left_out)


def ordinary_rows(rows: Sequence[GuardRow]) -> list[GuardRow]:
    """Return requests of everyday life to allow, without those that a row to hold is like."""
    looks_wrong = (
        text
        for entry in default_registry()
        if entry.decided and Surface.INPUT in entry.surfaces
        for text in entry.examples.allow
    )
    requests = [*_read_ordinary(), *looks_wrong]
    known = [GuardRow(text, "allow") for text in dict.fromkeys(requests)]
    every = [row._replace(group="") for row in (*rows, *known)]
    groups = assign_groups(every)
    held = {
        group for row, group in zip(rows, groups[: len(rows)], strict=True) if row.label == "hold"
    }
    return [row for row, group in zip(known, groups[len(rows) :], strict=True) if group not in held]


@cache
def _read_ordinary() -> tuple[str, ...]:
    raw = (files("demur.evals") / "ordinary_requests.json").read_bytes()
    listed = msgspec.json.decode(raw, type=_OrdinaryRequests)
    return tuple(text for texts in listed.rows.values() for text in texts)


class _OrdinaryRequests(msgspec.Struct, frozen=True):
    rows: dict[str, list[str]]


def choose_code(rows: Iterable[GuardRow], code: str = "") -> str:
    """Return the code of what is held: `code`, or that of the rows.

    Raises:
        InputError: The rows name several.
    """
    named = sorted({row.code for row in rows if row.label == "hold" and row.code})
    if not code and len(named) > 1:
        problem = f"the rows name several codes: {', '.join(named[:5])}"
        help_text = "train one guard for each, or choose one with --code"
        raise InputError(problem, where="rows", help=help_text)
    return code or next(iter(named), DEFAULT_CODE)


def check_guard_rows(rows: Sequence[GuardRow], where: str) -> None:
    """Check that a guard can be trained on these rows.

    Raises:
        GuardRowsError: They have one label only, are too few or too many, or contradict.
    """
    problems: list[Problem] = []
    if len(rows) > MAX_ROWS:
        many = Problem(where, f"more than {MAX_ROWS} rows", "give a sample of them")
        raise GuardRowsError.from_problems([many])
    groups, listed = count_groups(rows), count_labels(rows)
    for label, count in groups.items():
        if not count:
            problem = f"no row has the label `{label}`"
            help_text = "a guard learns the difference: give rows of both labels"
            problems.append(Problem(where, problem, help_text))
        elif count < MIN_GROUPS:
            problem = f"too few different rows to {label}: {count}"
            if listed[label] > count:
                problem += f" among {listed[label]}, because rows that differ in a few words "
                problem += "count once"
            help_text = f"add {MIN_GROUPS - count} or more in other words"
            problems.append(Problem(where, problem, help_text))
    problems.extend(_find_contradictions(rows, where))
    raise_problems(problems, GuardRowsError)


def _find_contradictions(rows: Sequence[GuardRow], where: str) -> Iterator[Problem]:
    same: dict[str, list[GuardRow]] = {}
    for row in rows:
        same.setdefault(row.plain_text, []).append(row)
    for found in same.values():
        shown = shorten(found[0].text, 60)
        if len({row.label for row in found}) > 1:
            problem = f"the text `{shown}` is held and allowed"
            yield Problem(where, problem, "decide for one label")
        elif len({row.group_key for row in found}) > 1:
            names = sorted({row.group or "no group" for row in found})
            problem = f"the text `{shown}` is in several groups: {', '.join(names[:5])}"
            yield Problem(where, problem, "remove one, or give both the same `group`")


def count_groups(rows: Sequence[GuardRow]) -> dict[GuardLabel, int]:
    """Return how many different groups have a row with each label."""
    found = {(row.label, group) for row, group in zip(rows, assign_groups(rows), strict=True)}
    counts = Counter(label for label, _ in found)
    return {label: counts[label] for label in GUARD_LABELS}


def assign_groups(rows: Sequence[GuardRow]) -> list[tuple[str, str]]:
    """Return the group of each row: the one that it names, or that of the texts like it.

    Texts like another one are chained: A and C are in one group if both are like B. The order of
    the rows has no influence.
    """
    parents: dict[tuple[str, str], tuple[str, str]] = {}

    def find_root(key: tuple[str, str]) -> tuple[str, str]:
        while (above := parents.setdefault(key, key)) != key:
            parents[key] = above = parents[above]
            key = above
        return key

    seen: dict[bytes, tuple[str, str]] = {}
    for row in rows:
        if row.group:
            continue
        for frame in _list_frames(row.text):
            one, other = find_root(row.group_key), find_root(seen.setdefault(frame, row.group_key))
            # The first in the alphabet names the group.
            parents[max(one, other)] = min(one, other)
    return [row.group_key if row.group else find_root(row.group_key) for row in rows]


def _list_frames(text: str) -> Iterator[bytes]:
    """Yield what remains of a text without a few words in one place, as digests."""
    words = split_words(text)
    rest = words[_MAX_COMPARED_WORDS:]
    words = words[:_MAX_COMPARED_WORDS]
    for length in range(1, _MAX_SLOT_WORDS + 1):
        kept = len(words) - length
        enough = kept >= _MIN_SHARED_WORDS and kept >= _MIN_SHARED * len(words)
        few = kept >= _MIN_SHORT_SHARED_WORDS and kept >= _MIN_SHORT_SHARED * len(words)
        for at in range(kept + 1) if enough or few else ():
            parts = (words[:at], words[at + length :], rest)
            frame = "\0".join(map(" ".join, parts)).encode("utf-8", "replace")
            yield hashlib.blake2b(frame, digest_size=12).digest()


def digest_rows(rows: Iterable[GuardRow]) -> str:
    """Return the digest of rows, whatever their order."""
    whole = hashlib.sha256()
    for row in sorted(rows):
        whole.update("\0".join(row).encode("utf-8", "surrogatepass") + b"\n")
    return f"sha256:{whole.hexdigest()}"


def count_labels(rows: Iterable[GuardRow]) -> dict[GuardLabel, int]:
    """Return how many rows have each label."""
    counts = Counter(row.label for row in rows)
    return {label: counts[label] for label in GUARD_LABELS}


def make_row_suite(name: str, rows: Iterable[GuardRow], code: str) -> EvalSuite:
    """Return the rows as a suite, so that `demur eval run` can test the guard on them."""
    category = code.casefold().removeprefix(_CONTENT_PREFIX)[:200]
    words = builtin_lexicon().common
    made = (
        EvalRow(
            id=f"{name}-{number:05}",
            prompt=row.text,
            label="harmful" if row.label == "hold" else "legitimate",
            category=category,
            language=guess_language(fold_sentence(row.text), words) or "en",
            source=name,
        )
        for number, row in enumerate(rows, start=1)
    )
    return make_suite(name, made, description=f"The rows that the guard `{name}` was trained on.")
