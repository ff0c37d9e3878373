"""Guess the language of a short text: by its script, else by the small words in it."""

import re
from collections.abc import Mapping, Sequence

from demur.respond.lint_mark import Marks
from demur.respond.lint_marks import builtin_locales, builtin_marks
from demur.respond.lint_text import fold_accents

__all__ = ["guess_locale"]

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_KANA = re.compile(r"[\u3041-\u30ff]")
_LATIN = re.compile(r"[a-z]", re.IGNORECASE)
_FAR = re.compile(r"[\u0370-\u1fff\u3131-\uabff\uac00-\ud7ff]")
# The guess needs only a sample of a long text.
_MAX_SAMPLE = 4_000
# Languages without marks that look like one with marks, so that they are not confused.
_OTHERS = {
    name: frozenset(fold_accents(words).lower().split())
    for name, words in {
        "it": "il lo gli di che non è per una con sono del della questo posso mi dispiace ma ti",
        "pt": "o os não um uma com para que do da em isso posso você mas por ao são sinto muito se",
        "nl": "de het een ik niet dat van en is kan je maar met voor dit om te over helpen",
        "sv": "jag inte det att och en som för på är kan med men du om tyvärr detta av hjälpa",
        "da": "jeg ikke det at og en som for på er kan med men du om desværre dette af hjælpe",
        "pl": "nie mogę się w to że na jest przepraszam ale z do jak pomóc tym w o i ci tego",
        "tr": "bu bir ve için değil üzgünüm ama ile bu konuda olamam size da de",
        "ro": "nu pot să te ajut cu acest și este în pentru dar din o îmi pare rău",
        "id": "saya tidak bisa dengan yang untuk ini itu dan maaf membantu anda tetapi",
        "vi": "tôi không thể giúp bạn với điều này xin lỗi nhưng và là của có",
        "cs": "nemohu se to že na je omlouvám ale s do jak pomoci tím v o i vám",
        "fi": "en voi auttaa tämän kanssa pahoittelut mutta ja on että se minä",
    }.items()
}


def guess_locale(text: str, extra: Sequence[Marks] = ()) -> str | None:
    """Return the language of `text` if there are marks for it, else None."""
    taste = fold_accents(text[:_MAX_SAMPLE]).lower()
    kana, latin = len(_KANA.findall(taste)), len(_LATIN.findall(taste))
    if kana and kana * 4 >= latin:
        return "ja"
    if len(_FAR.findall(taste)) > latin:
        return None
    known = {name: marks.words for name in builtin_locales() if (marks := builtin_marks(name))}
    known |= {marks.locale: marks.words for marks in extra}
    best = _best_language(
        _WORD.findall(taste), known | {name: _OTHERS[name] for name in _OTHERS.keys() - known}
    )
    return best if best in known else None


def _best_language(words: Sequence[str], languages: Mapping[str, frozenset[str]]) -> str | None:
    """Return the language that claims most of the words; those with marks win a tie."""
    counted = {name: sum(word in own for word in words) for name, own in languages.items()}
    best = max(counted, key=lambda name: counted[name], default=None)
    return best if best is not None and counted[best] else None
