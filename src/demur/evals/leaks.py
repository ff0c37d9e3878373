"""Keep training data apart from test data.

A digest of a row's twin group assigns it to the training or the test half, the same on every
machine and in every suite, so twins stay together. Prompts that are nearly the same as a test
prompt are found by the pieces they share.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from demur.errors import InputError
from demur.evals.suite import EvalSuite, make_suite
from demur.evals.suite_row import EvalRow

Half = Literal["train", "test"]
TEST_SHARE = 0.5

# Near: the share of pieces in common, or the share of the known text found in the other.
_MIN_SIMILARITY = 0.6
_MIN_CONTAINMENT, _SHINGLE_LENGTH = 0.8, 5
# Scripts without spaces need fewer characters for the same content.
_DENSE_SHINGLE_LENGTH = 2
_DENSE_SCRIPT = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_NO_WORD = re.compile(r"[\W_]+")


def half_of(row: EvalRow, test_share: float = TEST_SHARE) -> Half:
    """Return the half that a row and its twin belong to."""
    # INVARIANT: twins are never parted between training and testing.
    group = "\n".join(sorted({row.id, row.twin or row.id}))
    drawn = int.from_bytes(hashlib.sha256(f"demur split\n{group}".encode()).digest()[:8])
    return "test" if drawn < test_share * 2**64 else "train"


def check_share(test_share: float) -> float:
    """Return the share of rows to test on, if it is valid.

    Raises:
        InputError: It is not between 0 and 1.
    """
    if not 0 <= test_share <= 1:
        raise InputError(f"a share is between 0 and 1, not `{test_share}`")
    return test_share


def split_suite(suite: EvalSuite, half: Half, test_share: float = TEST_SHARE) -> EvalSuite:
    """Return the training half or the test half of a suite, under a name of its own.

    A suite that lies completely in this half is returned unchanged.

    Raises:
        InputError: The half is empty.
    """
    share = check_share(test_share)
    rows = [row for row in suite.rows if half_of(row, share) == half]
    if not rows:
        problem = f"no row of `{suite.name}` is in the half to {half} on"
        raise InputError(problem, help="add rows, or choose another share")
    if len(rows) == len(suite.rows):
        return suite
    return make_suite(
        f"{suite.name}-{half}",
        rows,
        version=suite.version,
        description=f"The rows of `{suite.name}` to {half} on.",
    )


def normalize_text(text: str) -> str:
    """Return a text without differences of case, Unicode form, punctuation and spaces."""
    return _NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def make_shingles(text: str) -> frozenset[str]:
    """Return the overlapping pieces of a normalized text, each a few characters long."""
    size = _DENSE_SHINGLE_LENGTH if _DENSE_SCRIPT.search(text) else _SHINGLE_LENGTH
    return frozenset(text[start : start + size] for start in range(max(1, len(text) - size + 1)))


class TextLeak(NamedTuple):
    """A known text that is the same or nearly the same: its name, and the share in common."""

    name: str
    share: float

    def __str__(self) -> str:
        same = self.share == 1
        return f"the same as `{self.name}`" if same else f"{self.share:.0%} like `{self.name}`"


class NearTextIndex:
    """Finds texts that are the same as indexed ones, or nearly the same.

    In one fixed order of pieces, any two near texts share a piece among the first few of each,
    so indexing only those misses nothing.
    """

    def __init__(self, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._names: list[str] = []
        self._texts: list[str] = []
        self._same: dict[str, int] = {}
        self._by_piece: dict[bytes, list[int]] = {}
        for name, text in texts:
            self.add_text(name, text)

    def __len__(self) -> int:
        return len(self._names)

    def add_text(self, name: str, text: str) -> None:
        """Index a text under a name."""
        plain = normalize_text(text)
        number = len(self._names)
        if self._same.setdefault(plain, number) != number:
            return
        self._names.append(name)
        self._texts.append(plain)
        pieces = sorted(map(_shingle_key, make_shingles(plain)))
        for place in pieces[: len(pieces) - int(_MIN_SIMILARITY * len(pieces) - 1e-9)]:
            self._by_piece.setdefault(place, []).append(number)

    def find_near(self, text: str) -> TextLeak | None:
        """Return the nearest indexed text, or None if none is near."""
        plain = normalize_text(text)
        if plain in self._same:
            return TextLeak(self._names[self._same[plain]], 1.0)
        pieces = make_shingles(plain)
        near = [
            (share, -number)
            for number in self._find_candidates(pieces)
            if (share := _similarity(pieces, make_shingles(self._texts[number])))
        ]
        if not near:
            return None
        share, number = max(near)
        # Only equal texts have a share of 1.
        return TextLeak(self._names[-number], min(share, 0.99))

    def _find_candidates(self, pieces: Iterable[str]) -> Iterator[int]:
        numbers: Counter[int] = Counter()
        for piece in pieces:
            numbers.update(self._by_piece.get(_shingle_key(piece), ()))
        return iter(numbers)


def _shingle_key(piece: str) -> bytes:
    """Return the sort key of a piece, the same for all texts."""
    return hashlib.blake2b(piece.encode(errors="replace"), digest_size=8).digest()


def _similarity(pieces: frozenset[str], known: frozenset[str]) -> float:
    """Return the similarity of two texts if they are near, otherwise 0."""
    both = len(pieces & known)
    alike, contained = both / len(pieces | known), both / len(known)
    near = alike >= _MIN_SIMILARITY or contained >= _MIN_CONTAINMENT
    return max(alike, contained) if near else 0.0
