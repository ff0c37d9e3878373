import pytest

from demur.errors import InputError
from demur.evals.importers.layout import category_of, id_of, text_of
from demur.evals.importers.records import Record

RECORD = Record({"id": "A 7", "number": 3, "gone": None}, "a.csv:8", 7)


def test_text_is_what_stands_in_the_column() -> None:
    assert text_of(RECORD, "id") == "A 7"
    assert text_of(RECORD, "number") == "3"


@pytest.mark.parametrize("column", ["gone", "never"])
def test_a_column_without_value_is_an_error(column: str) -> None:
    with pytest.raises(InputError, match=f"the row has no `{column}`"):
        text_of(RECORD, column)


def test_an_id_has_no_spaces_and_falls_back_to_the_number() -> None:
    assert id_of("x", RECORD, "id") == "x-A-7"
    assert id_of("x", RECORD) == "x-7"


def test_a_category_is_ours_where_we_have_a_word_for_it() -> None:
    assert category_of(" Malware/Hacking ", {"malware_hacking": "cyber"}) == "cyber"
    assert category_of("Self-harm", {}) == "self_harm"
