import pytest
from skills import actions, blocks, findings, seen

from demur.codes.reason_code import ReasonCode
from demur.guards.skill.obfuscation import find_lookalikes
from demur.model.finding import Action


def test_reordered_code_blocks_and_reordered_prose_is_asked_about() -> None:
    text = "allowed = False  # \u202e }if admin\n"

    assert actions(text)["TEXT_BIDI"] is Action.BLOCK
    assert actions(text, "notes.md")["TEXT_BIDI"] is Action.ESCALATE


def test_a_direction_that_is_closed_on_its_line_is_on_record() -> None:
    text = "name = '\u2067\u05d0\u05d1\u2069' + '\u2067x\u2069'\n"

    assert actions(text)["TEXT_BIDI"] is Action.WARN
    assert len(findings({"a.py": text})) == 1


def test_tag_characters_carry_hidden_orders() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey me")

    assert blocks(f"Hello{hidden} there", "SKILL.md") == {ReasonCode.SKILL_INJECTION}


def test_a_flag_of_a_region_passes() -> None:
    flag = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbsct") + "\U000e007f"

    assert seen(f"Made in {flag}", "README.md") == set()


@pytest.mark.parametrize("text", ["ig\u200bnore", "a\u200b\u200b b", "x" + "\ufe01" * 6])
def test_invisible_characters_are_found(text: str) -> None:
    assert "TEXT_INVISIBLE" in seen(f"# {text}\n")


def test_invisible_characters_weigh_less_in_prose() -> None:
    assert actions("soft\u00adhyphen", "README.md") == {"TEXT_INVISIBLE": Action.WARN}


def test_many_invisible_characters_are_a_few_findings() -> None:
    assert len(findings({"a.md": "a\u200bb " * 500})) == 20


@pytest.mark.parametrize("name", ["\uff45\uff58\uff45\uff43", "l\u043ead", "\U0001d41erase"])
def test_a_name_in_disguise_blocks(name: str) -> None:
    [found] = [
        one for one in findings({"a.py": f"x = 1\n{name} = 2\n"}) if one.action is Action.BLOCK
    ]

    assert found.code == ReasonCode.OBFUSCATED_CODE
    assert found.evidence["line"] == 2


@pytest.mark.parametrize("text", ["größe = 1", "имя = 1", "π = 3", "x = 'l\u043ead'", "# ﬁle"])
def test_names_of_one_alphabet_and_texts_pass(text: str) -> None:
    assert seen(text) == set()


def test_what_cannot_be_split_into_words_is_left_to_the_parser() -> None:
    assert list(find_lookalikes("x = 'ö\n    '''")) == []
