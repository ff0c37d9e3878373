import csv
import io

from demur.codes.export.table import CSV_COLUMNS, render_csv
from demur.codes.registry import Registry


def rows_of(registry: Registry) -> dict[str, dict[str, str]]:
    return {row["code"]: row for row in csv.DictReader(io.StringIO(render_csv(registry)))}


def test_there_is_one_row_for_each_code(mixed: Registry) -> None:
    assert list(rows_of(mixed)) == [entry.code for entry in mixed]


def test_cells_hold_words_lists_flags_and_nothing_for_null(core: Registry) -> None:
    row = rows_of(core)["SUCCESS_MEMORY_SIMILAR_ALLOW"]

    assert tuple(row) == CSV_COLUMNS
    assert row["refusal_class"] == ""
    assert row["decided"] == "true"
    assert row["http"] == "200"
    assert rows_of(core)["RCE_RISK"]["surfaces"] == "code_execution skill tool_call"


def test_text_with_quotes_and_line_breaks_comes_back_whole(mixed: Registry, nasty: str) -> None:
    assert rows_of(mixed)["acme.com/KYC_EXPIRED"]["title"] == nasty
