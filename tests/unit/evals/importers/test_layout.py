import pytest

from demur.errors import InputError
from demur.evals.importers.layout import map_category, make_row_id, read_column
from demur.evals.importers.records import TableRecord

RECORD = TableRecord({"id": "A 7", "number": 3, "gone": None}, "a.csv:8", 7)


def test_text_is_what_stands_in_the_column() -> None:
    assert read_column(RECORD, "id") == "A 7"
    assert read_column(RECORD, "number") == "3"


@pytest.mark.parametrize("column", ["gone", "never"])
def test_a_column_without_value_is_an_error(column: str) -> None:
    with pytest.raises(InputError, match=f"the row has no `{column}`"):
        read_column(RECORD, column)


def test_an_id_has_no_spaces_and_falls_back_to_the_number() -> None:
    assert make_row_id("x", RECORD, "id") == "x-A-7"
    assert make_row_id("x", RECORD) == "x-7"


def test_a_category_is_ours_where_we_have_a_word_for_it() -> None:
    assert map_category(" Malware/Hacking ", {"malware_hacking": "cyber"}) == "cyber"
    assert map_category("Self-harm", {}) == "self_harm"
