"""Suggest phrases: find lines that sound like a refusal and that no code or phrase covers.

Guards that were written before codes say `request denied` or `REFUSED: too risky`. Such lines are
not counted as refusals, because nobody has said what they mean. Suggestions group them by their
wording, without times, numbers, names and paths, and name the code whose words are nearest.
"""

import math
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from demur.codes.registry import Registry, fold_phrase, holds_phrase
from demur.codes.vocabulary import Effect
from demur.triage.counts import UNMAPPED, LineSample, RefusalCounts

MAX_PATTERN_LENGTH = 160
_MAX_READ_LENGTH = 2_000
_REFUSING_WORDS = (
    r"refus(?:ed|al|ing|es)|den(?:ied|ies|ying)|block(?:ed|s|ing)|reject(?:ed|s|ing|ion)|forbid(?:den|s)"
    r"|prohibit(?:ed|s)|disallow(?:ed|s)|not (?:allowed|permitted|authori[sz]ed)|unauthori[sz]ed"
    r"|violat(?:ion|ions|es|ed|ing)|declin(?:ed|es|ing)|throttl(?:ed|es|ing)|limit exceeded"
    r"|jailbreak|prompt injection|exfiltrat(?:ion|ing)"
)
# For the search engines, which find the lines to read; bytes beyond ASCII are no boundary.
HINT_EXPRESSIONS = (rb"(?i:\b(?:" + _REFUSING_WORDS.encode() + rb"))",)
_HINT = re.compile(rf"\b(?:{_REFUSING_WORDS})\b")
# Programs refuse too, and mean neither an agent nor a guard.
_OTHER_MEANING = re.compile(
    r"connection (?:was |is )?(?:refused|blocked)|refused to connect|permission denied"
    r"|access denied for user|non-?blocking|unblocked|blocking (?:call|io|i/o|mode|thread)"
    r"|blocked (?:for more than|waiting|on|thread|task)|constraint|key violation"
    # `no requests were blocked` counts something, and found nothing.
    rf"|\b(?:no|0|zero) (?:\w+ ){{1,2}}(?:{_REFUSING_WORDS})\b"
)
_LEVELS = "trace|debug|info|notice|warn|warning|error|err|critical|fatal"
_HEAD = re.compile(
    r"\A(?:[\[(<]?(?:[a-z]{3} )?\d[\d\-:./,+tz ]*[\])>]?\s*|[a-z]{3} +\d+ [\d:]+ )?"
    rf"(?:[\[(<|]?(?:{_LEVELS})[\])>|]?[\s:,-]*)?"
)
_VARIABLE = re.compile(
    r"\"[^\"]{0,200}\"|(?<!\w)'[^']{0,200}'(?!\w)|`[^`]{0,200}`"
    r"|\b[a-z][a-z0-9+.-]{0,20}://\S+|\b[\w.+-]{1,64}@[\w.-]{1,64}|(?<!\w)[~.]?(?:/[\w.@+-]+)+/?"
    r"|\b[0-9a-f]{8,}\b|\b[\w-]{0,40}\d[\w.:-]*"
)
_HIDDEN = "…"
_WORD = re.compile(r"[a-z]{3,}")
_STOP_WORDS = frozenset(
    _WORD.findall(
        "agent all and any api app are because been being but call called can cannot for from "
        "guard guards has have here host into its may not out per request requests server "
        "service that the this use used user was were when with"
    )
)
_ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ed", "es", "s")
_MIN_STEM = 4
# Shared words weigh by where the registry has them: in the name, in a phrase, in the description.
_NAME_WEIGHT, _PHRASE_WEIGHT, _TEXT_WEIGHT = 3.0, 1.5, 0.5
_MIN_SCORE = 4.0


class Suggestion(NamedTuple):
    """A wording of refusals that nothing maps, with the nearest code and one example."""

    pattern: str
    number: int
    nearest: str | None
    sample: LineSample | None


def find_unmapped(text: str) -> Iterator[str]:
    """Yield the wording of each line that sounds like a refusal.

    The caller passes only lines in which the finder finds nothing.
    """
    for line in text[:_MAX_READ_LENGTH].splitlines():
        folded = fold_phrase(line)
        hint = _HINT.search(folded)
        if hint is None or _OTHER_MEANING.search(folded) or not holds_phrase(folded, hint[0]):
            continue
        pattern = mask_line(folded)
        if _HINT.search(pattern):
            yield pattern


def mask_line(folded: str) -> str:
    """Return a folded line without its time and level, and with `…` for values."""
    masked = _VARIABLE.sub(_HIDDEN, _HEAD.sub("", folded, count=1))
    return masked.strip()[:MAX_PATTERN_LENGTH].rstrip()


def list_suggestions(counts: RefusalCounts, registry: Registry) -> list[Suggestion]:
    """Return the suggestions in the counts, most frequent first."""
    numbers: dict[str, int] = {}
    for key, number in counts.rows.items():
        if key.kind == UNMAPPED:
            numbers[key.code] = numbers.get(key.code, 0) + number
    index = _CodeIndex(registry)
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return [
        Suggestion(pattern, number, index.nearest_code(pattern), _first_sample(counts, pattern))
        for pattern, number in ordered
    ]


def _first_sample(counts: RefusalCounts, pattern: str) -> LineSample | None:
    return next(iter(counts.samples.get((pattern, UNMAPPED), ())), None)


class _CodeIndex:
    """The words of each code, to find the code that is nearest to a text."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @cached_property
    def _weights(self) -> dict[str, dict[str, float]]:
        """Each code with the weights of its words. Words of many codes weigh little."""
        weights: dict[str, dict[str, float]] = {}
        for entry in self._registry:
            if entry.effect is Effect.REFUSE and not entry.deprecated:
                words = weights.setdefault(entry.code, {})
                _raise_weights(words, entry.description, _TEXT_WEIGHT)
                _raise_weights(words, " ".join(entry.aliases), _PHRASE_WEIGHT)
                name = f"{entry.local_name.replace('_', ' ')} {entry.title}"
                _raise_weights(words, name, _NAME_WEIGHT)
        number = {word: 0 for words in weights.values() for word in words}
        for words in weights.values():
            for word in words:
                number[word] += 1
        rarity = {word: math.log(1 + len(weights) / count) for word, count in number.items()}
        return {
            code: {word: weight * rarity[word] for word, weight in words.items()}
            for code, words in weights.items()
        }

    def nearest_code(self, text: str) -> str | None:
        """Return the code whose phrase is in the text or whose words are nearest, or None."""
        # A marker keeps phrases from being read; here the words behind it are a hint.
        plain = text.replace("refused:", " ")
        if code := self._registry.code_of_phrase(plain):
            return code
        stems = set(_list_stems(_HINT.sub(" ", plain)))
        hints = set(_list_stems(" ".join(_HINT.findall(plain))))
        scores = {
            code: (self._score(code, stems), self._score(code, hints)) for code in self._weights
        }
        # Words that say only that something was refused break ties.
        best = max(sorted(scores), key=scores.__getitem__, default=None)
        return best if best is not None and scores[best][0] >= _MIN_SCORE else None

    def _score(self, code: str, stems: set[str]) -> float:
        words = self._weights[code]
        return sum(words[stem] for stem in sorted(stems & words.keys()))


def _raise_weights(words: dict[str, float], text: str, weight: float) -> None:
    for stem in _list_stems(text):
        words[stem] = max(words.get(stem, 0.0), weight)


def _list_stems(text: str) -> Iterable[str]:
    for word in _WORD.findall(text.casefold()):
        if word not in _STOP_WORDS:
            ending = next((end for end in _ENDINGS if word.endswith(end)), "")
            stem = word[: len(word) - len(ending)]
            yield stem if len(stem) >= _MIN_STEM else word
