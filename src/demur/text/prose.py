"""Fold prose, split it into sentences, and guess its language.

These folds are lighter than `demur.text.fold`: a model that declines does not disguise its words,
and phrases of every script must still match. `read_answer` returns the sentences that the
answerer itself says, without code, quotations and reasoning; of a very long answer it reads only
the head and the tail, since a model refuses at one of the two ends. `prepare_text` returns all
sentences of a text and a map back to it, for linting.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

# Accents, full-width forms and typographic variants, which both folds remove.
_SHARED: dict[int, str | None] = {
    **{point: unicodedata.normalize("NFD", chr(point))[0] for point in range(0xC0, 0x250)},
    **{point: chr(point - 0xFEE0) for point in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, "\u2018\u2019\u02bc\u00b4"), "'"),
    **dict.fromkeys(map(ord, "\u00a0\u202f\u3000"), " "),
    ord("ß"): "s",
}
# Lone surrogates come from cut streams; no engine can encode them.
_SURROGATES = range(0xD800, 0xE000)
_KEEPING_LENGTH: dict[int, str | None] = {
    **_SHARED,
    **dict.fromkeys(_SURROGATES, "\N{REPLACEMENT CHARACTER}"),
    0x2007: " ",
}
_FOR_PHRASES: dict[int, str | int | None] = {
    **_SHARED,
    **{point: unicodedata.normalize("NFD", chr(point))[0] for point in range(0x1E00, 0x1F00)},
    **dict.fromkeys((*range(0x300, 0x370), *range(0x64B, 0x653))),
    **dict.fromkeys(_SURROGATES, " "),
    **str.maketrans("łøđæœı", "lodaoi"),
    # Letters that writers of Russian and Arabic use for one another.
    **str.maketrans("ёأإآٱةى", "еااااهي", "ـ"),
    **str.maketrans("\u201b`", "''"),
    **dict.fromkeys(map(ord, "*_#>|~\t\r\v\f\u200b"), " "),
}


def fold_accents(text: str) -> str:
    """Return `text` without accents and typographic variants, character by character."""
    return text.translate(_KEEPING_LENGTH)


def fold_sentence(text: str) -> str:
    """Return `text` in the form that phrases are matched against."""
    return text.lower().translate(_FOR_PHRASES)


_MAX_SAMPLE = 600
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
_WORDS = re.compile(r"[a-z]+")
_SEVERAL = 2
# A few English words do not make a Chinese answer English.
_SHARE = 5


def guess_language(folded: str, languages_by_word: Mapping[str, Sequence[str]]) -> str | None:
    """Return the language of a folded text, or None if it is uncertain.

    `languages_by_word` maps the most common words, folded, to the languages that have them.
    """
    text = folded[:_MAX_SAMPLE]
    if not text.isascii():
        letters = sum(map(str.isalpha, text))
        for language, letter in _SCRIPTS:
            if len(letter.findall(text)) * _SHARE > letters:
                return language
    words = _WORDS.findall(text)
    counts = Counter(language for word in words for language in languages_by_word.get(word, ()))
    (best, most), (_, next_most) = [*counts.most_common(2), (None, 0), (None, 0)][:2]
    return best if most > next_most and most >= min(_SEVERAL, len(words)) else None


ANSWER_HEAD = 6000
ANSWER_TAIL = 2000

_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning|scratchpad)>", re.IGNORECASE)
_FENCE = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)
_FENCED = re.compile(
    r"(?:```|~~~)(?:|text|txt|plaintext|plain|markdown|md|output)[ \t]*\n"
    r"(?P<inner>.*?)(?:```|~~~)?",
    re.DOTALL | re.IGNORECASE,
)
_CODED = re.compile(r"[{}<>=;$\\|]|\w\(|^\s*(?:#|//)", re.MULTILINE)
_QUOTE = re.compile(
    r'"[^"\n]{2,400}"|\u201c[^\u201d\n]{2,400}\u201d|\u00ab[^\u00bb\n]{2,400}\u00bb'
    r"|\u300c[^\u300d\n]{2,400}\u300d|\u300e[^\u300f\n]{2,400}\u300f"
    r"|\u201e[^\u201c\u201d\n]{2,400}[\u201c\u201d]|^[ \t]*>[^\n]*",
    re.MULTILINE,
)
_QUOTING = ('"', "\u201c", "\u00ab", "\u300c", "\u300e", "\u201e", ">")
_ENDS = ".!?\u2026\u3002\uff01\uff1f\u0964\u061f"
_LINE = re.compile(r"[^\n]+")
_SENTENCE = re.compile(rf"[\W\d_]+|([^\W\d_][^{_ENDS}]*[{_ENDS}]*)")
_MIN_SENTENCE = 2
_ITEM = re.compile(
    r"[ \t#*]*(?:[-*\u2022\u2013\u00b7+](?=[ \t])|\d{1,2}[.):\uff0e\u3001]|\(\d{1,2}\)"
    r"|step \d{1,2}[:.])[ \t*]*",
    re.IGNORECASE,
)
# Speaker labels in answers with several voices: "[Name]:", "(Name)", "Name:", "As Name, …", signs.
_SPEAKER = re.compile(
    r"[ \t]*(?:[\[(][^\]\)\n]{1,40}[\])]:?"
    r"|[^\W\d_][\w.\-]{0,19}(?: [\w.()\-]{1,15}){0,2} ?[:\uff1a]|As [A-Z][\w-]*(?: \w+){0,5},"
    r"|[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f]{1,3}[\w ]{0,20}[:\uff1a]?|[\u0370-\u03ff]:?)"
    r"[ \t]+"
)


# Words before a colon that name no speaker.
_LABELS = frozenset(
    (
        "note",
        "warning",
        "disclaimer",
        "caution",
        "answer",
        "question",
        "summary",
        "example",
        "reason",
        "context",
        "review",
        "title",
        "result",
        "output",
        "explanation",
        "response",
        "important",
        "update",
        "tip",
        "conclusion",
        "background",
        "short answer",
        "p.s.",
        "ps",
        "hinweis",
        "achtung",
        "antwort",
        "nota",
        "respuesta",
        "remarque",
        "opmerking",
        "uwaga",
    )
)
# "Unable to proceed: …" is no speaker label: the answerer says it.
_REFUSING_LABEL = re.compile(
    r"\b(?:unable|refused|declined|denied|rejected|blocked|stopped|cannot|can.?t|won.?t|not|no"
    r"|sorry|abgelehnt|leider|nein|non|refus\u00e9|rechazad[oa])\b",
    re.IGNORECASE,
)


class AnswerSentence(NamedTuple):
    """One sentence: its place in the answer, its folded words, whether it is part of a list."""

    start: int
    end: int
    words: str
    in_list: bool
    speaker: str


_Sentences = list[AnswerSentence]


class ParsedAnswer(NamedTuple):
    """The sentences of an answer, and what was left out of them."""

    sentences: tuple[AnswerSentence, ...]
    truncated: bool
    code: bool
    quotes: int
    earlier_voices: tuple[AnswerSentence, ...] = ()


def split_windows(text: str) -> list[tuple[int, str]]:
    """Return the parts of an answer that are read, each with its place: all, or head and tail."""
    if len(text) <= ANSWER_HEAD + ANSWER_TAIL:
        return [(0, text)]
    return [(0, text[:ANSWER_HEAD]), (len(text) - ANSWER_TAIL, text[-ANSWER_TAIL:])]


def read_answer(text: str) -> ParsedAnswer:
    """Return the sentences of `text`. Works on any string."""
    sentences: list[AnswerSentence] = []
    code, quotes = False, 0
    windows = split_windows(text)
    for offset, window in windows:
        prose = _strip_fence(_blank_reasoning(window))
        if "```" in prose or "~~~" in prose:
            prose, count = _FENCE.subn(lambda found: " " * len(found[0]), prose)
            code = code or count > 0
        plain = _strip_outer_quotes(prose)
        if any(mark in plain for mark in _QUOTING):
            plain, count = _QUOTE.subn(_blank_quotation, plain)
            quotes += count
        sentences.extend(_split_sentences(plain, offset))
    earlier, last = _split_voices(sentences)
    return ParsedAnswer(tuple(last), len(windows) > 1, code, quotes, tuple(earlier))


def _split_voices(sentences: _Sentences) -> tuple[_Sentences, _Sentences]:
    """Return what earlier voices say and what the last one says; one voice says everything.

    Of an answer with two voices, one that declines and one that complies, the last one counts.
    """
    if not sentences or not sentences[0].speaker or sentences[-1].speaker == sentences[0].speaker:
        return [], sentences
    start = len(sentences)
    while sentences[start - 1].speaker == sentences[-1].speaker:
        start -= 1
    return sentences[:start], sentences[start:]


def _blank_reasoning(window: str) -> str:
    """Return the window with the model's reasoning blanked."""
    if "</" not in window:
        return window
    end = max((found.end() for found in _THOUGHT_END.finditer(window)), default=0)
    return " " * end + window[end:] if window[end:].strip() else window


def _strip_fence(prose: str) -> str:
    """Return the prose without a fence around the whole of it, unless that holds code."""
    if not prose.lstrip().startswith(("```", "~~~")):
        return prose
    # White space at both ends is skipped first: the expression is slow on a long run of it.
    found = _FENCED.fullmatch(prose, len(prose) - len(prose.lstrip()), len(prose.rstrip()))
    if found is None or _CODED.search(found["inner"]):
        return prose
    start, end = found.span("inner")
    return " " * start + prose[start:end]


def _strip_outer_quotes(prose: str) -> str:
    """Return the prose without quotation marks around the whole of it."""
    bare = prose.strip()
    if len(bare) > 2 and bare[0] in '"\u201c\u00ab\u300c' and bare[-1] in '"\u201d\u00bb\u300d':
        inner = bare[1:-1]
        if not any(mark in inner for mark in '"\u201c\u201d\u00ab\u300c'):
            return " " * (prose.index(bare[0]) + 1) + inner
    return prose


def _blank_quotation(found: re.Match[str]) -> str:
    """Return a quotation blanked; a single quoted word stays, as the answerer's own."""
    inner = found[0][1:-1]
    if found[0][0] in '"\u201c' and inner.isalpha() and inner.isascii():
        return f" {inner} "
    return " " * len(found[0])


def _split_sentences(prose: str, offset: int) -> Iterator[AnswerSentence]:
    folded = fold_sentence(prose)
    # Folding seldom changes the length; if it does, each sentence is folded by itself.
    whole = folded if len(folded) == len(prose) else None
    speaker = ""
    for line in _LINE.finditer(prose):
        begin, last = line.span()
        item = _ITEM.match(prose, begin, last)
        begin = begin if item is None else item.end()
        who = _SPEAKER.match(prose, begin, last)
        if who is not None and _REFUSING_LABEL.search(name := who[0].strip()) is None:
            begin = who.end()
            speaker = speaker if name.rstrip(" :").lower() in _LABELS else name
        for piece in _SENTENCE.finditer(prose, begin, last):
            start, end = piece.span(1)
            if end - start >= _MIN_SENTENCE:  # -1 to -1 where there is no letter
                words = fold_sentence(prose[start:end]) if whole is None else whole[start:end]
                yield AnswerSentence(start + offset, end + offset, words, item is not None, speaker)


# A refusal is a few sentences; text after this many characters is not read.
MAX_PROSE_LENGTH = 20_000

_INVISIBLE = dict.fromkeys([0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF])
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`"
    r'|"[^"\n]{2,600}"|“[^”\n]{2,600}”|„[^“”\n]{2,600}[“”]|«[^»\n]{2,600}»|「[^」\n]{2,600}」',
    re.DOTALL,
)
_BULLET = r"[ \t]*(?:[-*\u2022\u2013\u00b7]|\d{1,2}[.)])[ \t]"
# Languages without spaces have none after a full stop either.
_BREAK = re.compile(
    r"""[.!?…]+["')\]*_”»]*(?=\s|\Z|[\u3040-\u9fff]) | 。+[」』")]* | :(?=[*_ \t]*\n)
      | \n[ \t]*\n\s*"""
    rf" | \n(?={_BULLET})",
    re.VERBOSE,
)
_BULLET_START = re.compile(_BULLET)
_ABBREVIATED = re.compile(
    r"(?:\b(?:[a-hj-z]|e\.g|i\.e|etc|dr|mr|mrs|ms|vs|approx|bzw|ca|evtl|ggf|usw|vgl"
    r"|z\.b|d\.h|p\.ej|ej|ud|uds|sr|sra|cf|mme|env)|^\s*\d{1,2})\Z",
    re.IGNORECASE | re.MULTILINE,
)


class TextSentence(NamedTuple):
    """A sentence or list item, by its place in the folded text."""

    start: int
    end: int
    item: bool


class PreparedText(NamedTuple):
    """A folded text, its sentences and quotations, and a map to the original."""

    folded: str
    sentences: tuple[TextSentence, ...]
    quoted: tuple[tuple[int, int], ...]
    # The original place of each folded character; None if nothing moved.
    places: Sequence[int] | None

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original text."""
        return (start, end) if self.places is None else (self.places[start], self.places[end])

    def is_quoted(self, place: int) -> bool:
        """Return whether the text at `place` is somebody else's words."""
        at = bisect_right(self.quoted, (place, len(self.folded))) - 1
        return at >= 0 and self.quoted[at][0] <= place < self.quoted[at][1]


def prepare_text(text: str) -> PreparedText:
    """Return the text, cut to its limit, with its sentences and quotations."""
    composed, places = _compose_accents(text[:MAX_PROSE_LENGTH])
    folded = fold_accents(composed)
    # Quotation marks around nearly the whole text are no quotation.
    quoted = (found.span() for found in _QUOTED.finditer(composed))
    return PreparedText(
        folded=folded,
        sentences=tuple(_split_at_breaks(folded)),
        quoted=tuple(span for span in quoted if span[1] - span[0] < 0.8 * len(composed)),
        places=places,
    )


def _compose_accents(text: str) -> tuple[str, Sequence[int] | None]:
    """Return `text` with its accents joined to their letters, and where each character was."""
    if unicodedata.is_normalized("NFC", text) and text.translate(_INVISIBLE) == text:
        return text, None
    composed: list[str] = []
    places: list[int] = []
    for start, end in _iter_clusters(text):
        joined = unicodedata.normalize("NFC", text[start:end].translate(_INVISIBLE))
        composed.append(joined)
        places.extend([start] * len(joined))
    return "".join(composed), [*places, len(text)]


def _iter_clusters(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for at in range(1, len(text)):
        if not unicodedata.combining(text[at]):
            yield start, at
            start = at
    yield start, len(text)


def _split_at_breaks(text: str) -> Iterator[TextSentence]:
    start = 0
    for found in _BREAK.finditer(text):
        if not _continues_sentence(text, start, found):
            yield from _trim_sentence(text, start, found.end())
            start = found.end()
    yield from _trim_sentence(text, start, len(text))


def _continues_sentence(text: str, start: int, found: re.Match[str]) -> bool:
    """Return whether a full stop belongs to an abbreviation or a number, not to a sentence."""
    if found[0] != ".":
        return False
    before = text[max(start, found.start() - 12) : found.start()]
    after = text[found.end() : found.end() + 8].lstrip(" \t\n")
    return after[:1].islower() or _ABBREVIATED.search(before) is not None


def _trim_sentence(text: str, start: int, end: int) -> Iterator[TextSentence]:
    inside = text[start:end].strip()
    if any(character.isalnum() for character in inside):
        first = start + text[start:end].index(inside)
        in_list = _BULLET_START.match(inside + " ") is not None
        yield TextSentence(first, first + len(inside), in_list)
