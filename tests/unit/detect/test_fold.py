import pytest

from demur.detect.fold import fold_sentence


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("I Can\u2019t", "i can't"),
        ("D\u00e9sol\u00e9, \u0142adnie, stra\u00dfe", "desole, ladnie, strase"),
        ("De\u0301sole\u0301", "desole"),
        ("**bold** _and_ `code`", "  bold    and  'code'"),
        ("\u0401\u043b\u043a\u0430", "\u0435\u043b\u043a\u0430"),
        ("\u0623\u0633\u0641\u0629", "\u0627\u0633\u0641\u0647"),
        ("\uff21\uff22\uff01", "ab!"),
        ("a\ud800b", "a b"),
    ],
)
def test_one_form_for_all_spellings(text: str, folded: str) -> None:
    assert fold_sentence(text) == folded
