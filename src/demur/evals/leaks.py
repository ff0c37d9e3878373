"""Keep what is trained on apart from what is tested on.

Rows fall into two halves by a digest of their twin group, the same on every machine and in
every suite, so twins stay together. Prompts are held against tested ones by what they share.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from demur.errors import InputError
from demur.evals.suite import Suite, make_suite
from demur.evals.suite_row import Row

__all__ = [
    "TEST_SHARE",
    "Half",
    "Leak",
    "NearText",
    "half_of",
    "normal",
    "share_of",
    "shingles",
    "split_suite",
]

Half = Literal["train", "test"]
TEST_SHARE = 0.5

# Near: this much of both together is shared, or this much of the tested one stands in the other.
_ALIKE = 0.6
_CONTAINED = 0.8
_SHINGLE = 5
# Scripts without spaces say in one character what takes others a few.
_DENSE_SHINGLE = 2
_DENSE = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_NO_WORD = re.compile(r"[\W_]+")


def half_of(row: Row, test_share: float = TEST_SHARE) -> Half:
    """Return the half that a row belongs to; its twin belongs to the same."""
    # INVARIANT: twins are never parted between training and testing.
    group = "\n".join(sorted({row.id, row.twin or row.id}))
    drawn = int.from_bytes(hashlib.sha256(f"demur split\n{group}".encode()).digest()[:8])
    return "test" if drawn < test_share * 2**64 else "train"


def share_of(test_share: float) -> float:
    """Return a share that can be tested on.

    Raises:
        InputError: It is not between 0 and 1.
    """
    if not 0 <= test_share <= 1:
        raise InputError(f"a share is between 0 and 1, not `{test_share}`")
    return test_share


def split_suite(suite: Suite, half: Half, test_share: float = TEST_SHARE) -> Suite:
    """Return the half of a suite to train on, or to test on, under a name of its own.

    A suite that is all in this half is returned as it is.

    Raises:
        InputError: No row is in it.
    """
    share = share_of(test_share)
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


def normal(text: str) -> str:
    """Return a text without what does not make it another one: case, form, signs, spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _NO_WORD.sub(" ", folded).strip()


def shingles(text: str) -> frozenset[str]:
    """Return the pieces that a normal text is made of, each a few characters long."""
    size = _DENSE_SHINGLE if _DENSE.search(text) else _SHINGLE
    return frozenset(text[start : start + size] for start in range(max(1, len(text) - size + 1)))


class Leak(NamedTuple):
    """A text that is the same as a known one, or near it: which, and how much they share."""

    name: str
    share: float

    def __str__(self) -> str:
        same = self.share == 1
        return f"the same as `{self.name}`" if same else f"{self.share:.0%} like `{self.name}`"


class NearText:
    """Finds texts that were put in before, or nearly the same ones.

    Any two near texts share a piece among the first few of either in one fixed order, so
    only those are indexed, and nothing near is missed.
    """

    def __init__(self, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._names: list[str] = []
        self._texts: list[str] = []
        self._same: dict[str, int] = {}
        self._by_piece: dict[bytes, list[int]] = {}
        for name, text in texts:
            self.add(name, text)

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str, text: str) -> None:
        """Put in a text under a name."""
        plain = normal(text)
        number = len(self._names)
        if self._same.setdefault(plain, number) != number:
            return
        self._names.append(name)
        self._texts.append(plain)
        pieces = sorted(map(_place, shingles(plain)))
        for place in pieces[: len(pieces) - int(_ALIKE * len(pieces) - 1e-9)]:
            self._by_piece.setdefault(place, []).append(number)

    def find(self, text: str) -> Leak | None:
        """Return the nearest text that was put in, or None if none is near."""
        plain = normal(text)
        if plain in self._same:
            return Leak(self._names[self._same[plain]], 1.0)
        asked = shingles(plain)
        near = [
            (share, -number)
            for number in self._candidates(asked)
            if (share := _likeness(asked, shingles(self._texts[number])))
        ]
        if not near:
            return None
        share, number = max(near)
        # Only what is the same shares everything.
        return Leak(self._names[-number], min(share, 0.99))

    def _candidates(self, asked: Iterable[str]) -> Iterator[int]:
        seen: Counter[int] = Counter()
        for piece in asked:
            seen.update(self._by_piece.get(_place(piece), ()))
        return iter(seen)


def _place(piece: str) -> bytes:
    """Return where a piece stands in the order that all texts share."""
    return hashlib.blake2b(piece.encode(errors="replace"), digest_size=8).digest()


def _likeness(asked: frozenset[str], known: frozenset[str]) -> float:
    """Return how much two texts share if they are near, and 0 otherwise."""
    both = len(asked & known)
    alike, contained = both / len(asked | known), both / len(known)
    return max(alike, contained) if alike >= _ALIKE or contained >= _CONTAINED else 0.0
