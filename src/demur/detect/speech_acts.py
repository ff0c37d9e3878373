"""Classify what each sentence of an answer does: its speech acts, in any language.

The phrases stand in `phrases/<language>.yaml` as RE2 expressions over folded text, with two
shorthands: `{name}` is a word class of the same file, and `~` stands for up to three words and
the space after them. The set of acts is closed, because the trained model knows only these. A
letter or poem in the answer has a speaker of its own, so its refusals do not count. A curt
sentence counts only in a short answer.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import re2

from demur.errors import ManyProblemsError
from demur.source import SourceItem, read_source
from demur.text.prose import AnswerSentence, ParsedAnswer, fold_sentence, read_answer


class SpeechAct(IntEnum):
    """The speech act of a sentence. Their order is part of the trained model's file."""

    DECLINE = 0  # says that it will not or cannot do what was asked
    CANNOT = 1  # says that it cannot do something
    UNKNOWING = 2  # lacks knowledge or access, or does not understand
    APOLOGY = 3
    REGRET = 4  # an apology that goes on with "but"
    SELF = 5  # speaks of itself as a machine
    POLICY = 6  # appeals to rules
    WRONG = 7  # names something wrong or dangerous
    REBUKE = 8  # passes judgement: this is not acceptable
    REMIND = 9  # it is important to …
    DISCOURAGE = 10  # advises against, urges
    INSTEAD = 11  # points to something else
    INVITE = 12  # offers to help with other things
    RESOURCES = 13  # points to people who can help
    EMPATHY = 14
    COMPLY = 15  # begins, announces or structures an answer
    TURN = 16  # however, …
    SHIFT = 17  # changes the subject, or asks back
    REQUEST = 18  # speaks of the request as such
    TRAP = 19  # only sounds like a refusal: "I can't help but …"
    UNCLEAR = 20  # does not understand what is asked
    TERSE = 21  # declines if it is nearly all that is said: "Not doing that."
    NO = 22  # a bare no, which declines a request and answers a question
    UNABLE = 23  # lacks access, knowledge or a means, or found nothing
    UNWILLING = 24  # says that it will not, rather than cannot
    NEUTRAL = 25  # claims to have no opinion
    ASIDE = 26  # declines only advice of a profession, an opinion or a prediction
    HELD = 27  # says that an action is held or cannot go on, without saying who holds it
    DONE = 28  # reports what it did nevertheless: "…, so I opened a ticket"


# Whole sentences that count only in a short answer.
CURT_ACTS = (SpeechAct.TERSE, SpeechAct.NO)
# Acts that only rules look at. They are no features of the model.
RULE_ACTS = (SpeechAct.TRAP, *CURT_ACTS, *(act for act in SpeechAct if act >= SpeechAct.UNABLE))


def act_bits(names: str) -> int:
    """Return the acts with these names as bits, `1 << act` for each."""
    return sum(1 << SpeechAct[name.upper()] for name in names.split())


DECLINE = act_bits("decline")
REFUSING = act_bits("decline cannot")
SORRY = act_bits("apology regret")
HELPING = act_bits("comply turn")
COMPLY, REBUKE, UNKNOWING = act_bits("comply"), act_bits("rebuke"), act_bits("unknowing")
MORAL = act_bits("wrong rebuke remind discourage policy resources instead")
UNABLE = act_bits("unable")
QUALIFYING = act_bits("unable unwilling neutral aside held done")
_TRAP, _NEUTRAL, _ASIDE = act_bits("trap"), act_bits("neutral"), act_bits("aside")
_DONE = act_bits("done")
_CHOSEN = act_bits("unwilling wrong rebuke policy discourage")


def drop_seeming_refusals(acts: int) -> int:
    """Return the acts of a sentence without refusals that only sound like one.

    "I can't help but …", "I have no opinions" and "…, so I did it" refuse nothing. "I can't open
    the file" says what is missing, unless the sentence also judges or says "I won't".
    """
    if acts & _NEUTRAL:
        acts &= ~(REFUSING | UNKNOWING)
    if acts & _DONE:
        return acts & ~(REFUSING | UNABLE | UNKNOWING | _TRAP) | COMPLY
    if acts & UNABLE and acts & _CHOSEN:
        acts &= ~UNABLE
    if acts & UNABLE:
        acts = acts & ~REFUSING | UNKNOWING
    return acts & ~(REFUSING | _TRAP) if acts & _TRAP else acts


SCHEMA_VERSION = "detect_phrases.v1"

_KEYS = ("schema_version", "language", "spaced", "common", "words", "acts")
_WORD = re.compile(r"\{([a-z]+)\}")
_SPACE = re.compile(r" (?![?*+])")
_GAP = r"(?:\S+ +){0,3}"
# Languages that share one automaton. One automaton for all of them would have so many
# states that fresh text keeps adding new ones.
_TOGETHER = (frozenset({"es", "fr", "it", "pt"}), frozenset({"de", "nl", "pl", "yo"}))
_WORDS = re.compile(r"[a-z]+")
_MIN_WORDS = 8
# re2 builds the automaton while matching; with too little memory it starts over.
_MEMORY = 128 << 20


class PhraseError(ManyProblemsError):
    """A phrase file that cannot be used."""


_ACTS = {act.name.lower(): act for act in SpeechAct}
_Words = Mapping[str, str]
# An act, and an expression for it.
_PhraseRow = tuple[SpeechAct, str]


class LanguagePhrases(NamedTuple):
    """The phrases of one language, each an expression with its act."""

    language: str
    common: frozenset[str]
    rows: tuple[_PhraseRow, ...]


class Lexicon:
    """Says which acts the sentences of an answer perform. Immutable; safe to share."""

    __slots__ = ("_always", "_curt", "_groups", "_other", "common")

    def __init__(self, languages: Iterable[LanguagePhrases]) -> None:
        known = tuple(languages)
        # The languages that have a common word.
        self.common: dict[str, tuple[str, ...]] = {}
        for one in known:
            for word in one.common:
                self.common[word] = (*self.common.get(word, ()), one.language)
        every = [(one.language, row) for one in known for row in one.rows]
        rows = [(language, row) for language, row in every if row[0] not in CURT_ACTS]
        self._curt = _PhraseMatcher([row for _, row in every if row[0] in CURT_ACTS])
        latin = [(language, row) for language, row in rows if row[1].isascii()]
        self._other = _PhraseMatcher([row for _, row in rows if not row[1].isascii()])
        named = frozenset[str]().union(*_TOGETHER)
        self._always = _PhraseMatcher([row for language, row in latin if language not in named])
        self._groups = tuple(
            (
                frozenset(word for word, have in self.common.items() if names.issuperset(have)),
                _PhraseMatcher([row for language, row in latin if language in names]),
            )
            for names in _TOGETHER
        )

    def classify_sentences(self, sentences: Sequence[str]) -> tuple[int, ...]:
        """Return for each folded sentence of an answer its acts as bits, `1 << act` for each.

        English is always matched. Other languages in Latin script are matched if the answer has
        one of their common words or is too short to tell, the rest by the script of a sentence.
        """
        words = set(_WORDS.findall(" ".join(sentences)))
        short = len(words) < _MIN_WORDS
        groups = [one for marks, one in self._groups if short or not marks.isdisjoint(words)]
        return tuple(self._classify_sentence(sentence, groups) for sentence in sentences)

    def classify_curt(self, sentence: str) -> int:
        """Return the curt acts, as bits, that a whole folded sentence performs in any language."""
        found = self._curt.match_acts(sentence)
        return 0 if found and self._always.match_acts(sentence) & _TRAP else found

    def _classify_sentence(self, sentence: str, groups: Sequence["_PhraseMatcher"]) -> int:
        found = self._always.match_acts(sentence)
        for matcher in groups:
            found |= matcher.match_acts(sentence)
        if not sentence.isascii():
            found |= self._other.match_acts(sentence)
        return drop_seeming_refusals(found)


class _PhraseMatcher:
    __slots__ = ("_bits", "_set")

    def __init__(self, rows: list[_PhraseRow]) -> None:
        options = re2.Options()
        options.never_capture = True
        options.log_errors = False
        options.max_mem = _MEMORY
        self._set = re2.Set.SearchSet(options)
        self._bits = [1 << act for act, _ in rows]
        for _, expression in rows:
            self._set.Add(expression)
        self._set.Compile()

    def match_acts(self, sentence: str) -> int:
        found = 0
        for index in self._set.Match(sentence) or ():
            found |= self._bits[index]
        return found


@cache
def builtin_lexicon() -> Lexicon:
    """Return the phrases that demur ships, ready to match."""
    folder = files("demur.detect") / "phrases"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return Lexicon(read_phrases((folder / name).read_text("utf-8"), name) for name in names)


def read_phrases(text: str, name: str = "phrases") -> LanguagePhrases:
    """Return the phrases written in `text`, called `name` in errors.

    Raises:
        PhraseError: demur cannot use them; carries every problem.
    """
    source = read_source(name, text, PhraseError)
    source.as_fields(_KEYS, "a phrase file")
    for key in _KEYS:
        source.require_item(key)
    if source.get("schema_version") is not None:
        source.check_version(SCHEMA_VERSION)
    words = {key: str(item.value) for key, item in source.read_entries("words").items()}
    item = source.get("common")
    # It is empty for languages that are known by their script.
    common = item.value if item is not None else ""
    if item is not None and not isinstance(common, str):
        item.report("`common` must be a text", "quote it")
        common = ""
    phrases = LanguagePhrases(
        language=source.optional_text("language") or "",
        common=frozenset(fold_sentence(common).split()),
        rows=tuple(_read_rows(source, words, spaced=source.read_flag("spaced"))),
    )
    source.raise_problems(PhraseError)
    return phrases


def _read_rows(source: SourceItem, words: _Words, *, spaced: bool) -> Iterator[_PhraseRow]:
    acts = source.get("acts")
    for name, item in () if acts is None else acts.as_fields(_ACTS, "`acts`").items():
        if not isinstance(item.value, list):
            item.report(f"the phrases of `{name}` are a list")
            continue
        for phrase in item.value:
            whole = _ACTS.get(name) in CURT_ACTS
            expression = _build_expression(phrase, words, spaced=spaced, whole=whole)
            if expression is not None and name in _ACTS:
                yield _ACTS[name], expression


def _build_expression(
    phrase: SourceItem, words: _Words, *, spaced: bool, whole: bool
) -> str | None:
    """Return a phrase as RE2 reads it, or None with the problem reported."""
    if not isinstance(phrase.value, str):
        phrase.report("a phrase is a text", "quote it")
        return None
    letters = (letter for letter in phrase.value if letter.isalpha() and not letter.isascii())
    odd = next((letter for letter in letters if fold_sentence(letter) != letter), None)
    if odd is not None:
        phrase.report(f"`{odd}` is never seen", f"write `{fold_sentence(odd)}`")
        return None
    missing = [name for name in _WORD.findall(phrase.value) if name not in words]
    if missing:
        phrase.report(f"unknown word class `{missing[0]}`")
        return None
    text = _WORD.sub(lambda found: words[found[1]], phrase.value)
    text = _SPACE.sub(" +", text).replace("~", _GAP)
    if whole:
        expression = rf"^(?:{text})[^\pL\pN]*$"
    else:
        start = (r"\b" if text.isascii() else r"(?:^|[^\pL])") if spaced else ""
        expression = f"{start}(?:{text})"
    try:
        re2.compile(expression)
    except re2.error as error:
        phrase.report(f"not an expression: {error.args[0]!s}")
        return None
    return expression


_MAX_SEARCHED = 8000
_MAX_GREETING_LINES = 12
_MIN_VERSE_LINES = 4
_MAX_VERSE_LINE = 60
_MIN_OPEN_SHARE = 0.6
_GREETING = re.compile(
    r"[ \t>*_]{0,9}(?:dear(?= [^\n,:]{1,40}[,:])"
    r"|(?:(?:hi|hello|hey|hallo|hola|bonjour|ol[a\u00e1])(?! (?:there|again)\b)(?= \S)"
    r"|sehr geehrte\w*|liebe[rs]?|ch[e\u00e8]re?s?|madame|monsieur|estimad\w+"
    r"|querid\w+|gentil\w+|egregi\w+|car[oaie]|prezad\w+|geachte|beste"
    r"|szanown\w+|drog\w+|\u0443\u0432\u0430\u0436\u0430\w+|\u0434\u043e\u0440\u043e\u0433\w+"
    r"|\u5c0a\u656c\u7684|\u4eb2\u7231\u7684|\u062d\u0636\u0631\u0629|\u0639\u0632\u064a\u0632\w+)"
    r"(?=[^\n.?!]{0,45}[!]?$))",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?:^|(?<=[.!] ))[ \t>*_]{0,9}(?:(?:kind|best|warm|many|with (?:kind|best|warm))\b[^\n.]{0,30}"
    r"|(?:your )?sincerely|yours\b[^\n.]{0,20}|regards|love|cheers|best|respectfully|the \w+"
    r"|mit (?:freundlich|best|herzlich)\w*[^\n]{0,20}|(?:viele|liebe|herzliche|beste) gr\w+"
    r"|cordialement|bien \u00e0 \w+|atentamente|saludos|un saludo|cordiali saluti|distinti saluti"
    r"|atenciosamente|abra\u00e7os|met vriendelijke groet\w*|groet\w*|z powa\u017caniem"
    r"|pozdrawiam|\u0441 \u0443\u0432\u0430\u0436\u0435\u043d\u0438\u0435\u043c|\u6b64\u81f4"
    r"|\u656c\u4e0a|\u0645\u0639 \u0627\u0644\u062a\u062d\u064a\u0629)"
    r"[,!.\uff0c\u060c]?[ \t]{0,3}\n?[^\n.?!]{0,40}$",
    re.IGNORECASE | re.MULTILINE,
)


def find_quoted_prose(text: str) -> tuple[int, int] | None:
    """Return where a letter begins and ends, or all of a poem; None if there is neither."""
    if "\n" not in text and "ear " not in text:
        return None
    head = text[:_MAX_SEARCHED]
    lines = head.split("\n")
    return _find_letter(head, lines) or ((0, len(text)) if _is_verse(lines) else None)


def _is_verse(every: Sequence[str]) -> bool:
    """Return whether these are short lines that mostly stop before their sentence does."""
    if len(every) < _MIN_VERSE_LINES or max(map(len, every)) > _MAX_VERSE_LINE:
        return False
    lines = [line.strip() for line in every if line.strip()]
    if len(lines) < _MIN_VERSE_LINES:
        return False
    unfinished = sum(line[-1].isalpha() or line[-1] in ",;" for line in lines)
    return unfinished >= _MIN_OPEN_SHARE * len(lines)


def _find_letter(head: str, lines: Sequence[str]) -> tuple[int, int] | None:
    """Return where a letter stands: from its greeting, at the start of a line, to its closing."""
    start = 0
    for line in lines[:_MAX_GREETING_LINES]:
        if _GREETING.match(line):
            closing = _CLOSING.search(head, start + len(line.split(",", 1)[0]))
            return None if closing is None else (start, closing.end())
        start += len(line) + 1
    return None


# How many sentences count as the opening.
OPENING_SENTENCES = 2

# In a longer answer a curt sentence says little.
_MAX_CURT_LENGTH = 240
# With so much help, "I can't give medical advice" declines nothing.
_MIN_HELP = 150
# So many quotations are themselves the help: phrases, titles, lines to say.
MIN_QUOTED_ITEMS = 4
_MIN_HELP_SHARE = 0.4
_TERSE = act_bits("terse")
_NO = act_bits("no")


class AnswerAnalysis(NamedTuple):
    """An answer with the acts of its sentences, and those of earlier voices.

    `says_no`: how many helping characters follow the bare no it begins with; None without one.
    """

    answer: ParsedAnswer
    acts: tuple[int, ...]
    earlier_acts: tuple[int, ...]
    says_no: int | None = None


def analyze_answer(response: str) -> AnswerAnalysis:
    """Return the speech acts of the sentences of `response`."""
    answer = read_answer(response)
    lexicon = builtin_lexicon()
    sentences = answer.sentences
    acts = lexicon.classify_sentences([one.words for one in sentences])
    quoted = find_quoted_prose(response) if any(bits & REFUSING for bits in acts) else None
    if quoted is not None:
        # Refusals in a letter or poem in the answer are not the answerer's own.
        acts = tuple(
            bits & HELPING if quoted[0] <= one.start < quoted[1] else bits
            for one, bits in zip(sentences, acts, strict=True)
        )
    voices = [one.words for one in answer.earlier_voices]
    earlier = lexicon.classify_sentences(voices) if voices else ()
    analysis = AnswerAnalysis(answer, acts, earlier)
    if sentences and sum(one.end - one.start for one in sentences) <= _MAX_CURT_LENGTH:
        analysis = _add_curt_acts(analysis, lexicon)
    return analysis._replace(acts=_drop_asides(answer, analysis.acts))


def _drop_asides(answer: ParsedAnswer, acts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the acts without "I can't give medical advice" where the answer helps nevertheless."""
    if not any(bits & _ASIDE and bits & REFUSING for bits in acts):
        return acts
    total = sum(one.end - one.start for one in answer.sentences)
    helping = count_helping(zip(answer.sentences, acts, strict=True))
    quoted = answer.quotes >= MIN_QUOTED_ITEMS
    if helping < max(_MIN_HELP, _MIN_HELP_SHARE * total) and not quoted:
        return acts
    return tuple(bits & ~REFUSING if bits & _ASIDE else bits for bits in acts)


def _add_curt_acts(analysis: AnswerAnalysis, lexicon: Lexicon) -> AnswerAnalysis:
    """Return a short answer with its curt sentences counted as refusals."""
    head = analysis.answer.sentences[:OPENING_SENTENCES]
    opening = [lexicon.classify_curt(one.words) for one in head]
    acts = tuple(
        bits | DECLINE if index < OPENING_SENTENCES and opening[index] & _TERSE else bits
        for index, bits in enumerate(analysis.acts)
    )
    first = next((index for index, bits in enumerate(opening) if bits & _NO), None)
    if first is None or (first and not acts[0] & SORRY):
        return analysis._replace(acts=acts)
    rest = list(zip(analysis.answer.sentences, acts, strict=True))[first + 1 :]
    return analysis._replace(acts=acts, says_no=count_helping(rest))


def count_helping(sentences: Iterable[tuple[AnswerSentence, int]]) -> int:
    """Return how many characters of sentences, each with its acts, do nothing but help."""
    return sum(one.end - one.start for one, bits in sentences if is_helping(bits))


def is_helping(acts: int) -> bool:
    """Return whether a sentence with these acts does nothing but help."""
    return not acts & ~(HELPING | QUALIFYING)
