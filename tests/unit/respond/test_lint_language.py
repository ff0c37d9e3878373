import pytest

from demur.respond.lint_language import guess_locale
from demur.respond.lint_marks import parse_marks


@pytest.mark.parametrize(
    ("text", "locale"),
    [
        ("I can't help with that, because it is hers.", "en"),
        ("ERROR: Access refused.", "en"),
        ("Ich kann dabei leider nicht helfen.", "de"),
        ("Anfrage abgelehnt", "de"),
        ("No puedo ayudarte con eso, lo siento.", "es"),
        ("Je ne peux pas vous aider avec cela.", "fr"),
        ("申し訳ありませんが、できません。", "ja"),
        ("README の場所をご案内できます。", "ja"),
        ("I can't translate the word の for you, because it is a particle.", "en"),
        ("Mi dispiace, ma non posso aiutarti con questo.", None),
        ("Desculpe, não posso ajudar com isso.", None),
        ("Het spijt me, ik kan je niet helpen met dit.", None),
        ("Przepraszam, nie mogę w tym pomóc.", None),
        ("抱歉。我无法提供帮助。", None),
        ("Извините, я не могу помочь.", None),
        ("ขออภัย ฉันช่วยไม่ได้", None),
        ("", None),
        ("42", None),
        ("xyzzy", None),
    ],
)
def test_the_language_is_guessed_or_not_known(text: str, locale: str | None) -> None:
    assert guess_locale(text) == locale


def test_marks_of_ones_own_bring_their_language() -> None:
    italian = parse_marks(
        "schema_version: refusal_marks.v1\nlocale: it\nwords: [mi, dispiace, ma, non]\nmarks: []"
    )

    assert guess_locale("Mi dispiace, ma non posso.", [italian]) == "it"
