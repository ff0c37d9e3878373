from typing import Any

import pytest

from demur.detect.arrow import detect_batch
from demur.errors import InputError


class Column:
    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def to_pylist(self) -> list[Any]:  # noqa: D102 - the name is Arrow's
        return self.values


class Batch:
    """Has the shape of an Arrow batch, as far as it is used."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns

    def column(self, name: str) -> Column:  # noqa: D102 - the name is Arrow's
        return Column(self.columns[name])


def test_a_batch_gives_columns_row_for_row_and_null_stays_null() -> None:
    batch = Batch(
        response=["I can't help with that.", None, "Sure! Here is the list."], n=[1, 2, 3]
    )

    columns = detect_batch(batch)

    assert columns["kind"] == ["full", None, "none"]
    assert columns["code"] == ["MODEL_DECLINED", None, None]
    assert {len(values) for values in columns.values()} == {3}


def test_columns_may_have_other_names() -> None:
    batch = Batch(answer=["I can't help with that.", "No."], question=["Why?", None])

    assert detect_batch(batch, "answer", "question")["kind"][0] == "full"


@pytest.mark.parametrize("batch", [Batch(text=["a"]), object(), Batch(response=[3])])
def test_a_batch_without_texts_is_an_error(batch: Any) -> None:
    with pytest.raises(InputError, match="column `response`"):
        detect_batch(batch)
