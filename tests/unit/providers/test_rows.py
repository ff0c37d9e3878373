"""Every row of the mapping of models and clouds, in each form in which it can come in."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demur.codes.vocabulary import Surface
from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

FIXTURES = sorted(Path(__file__).with_name("fixtures").glob("*.json"))
FOUND = [
    (f"{file.stem}: {row['note']}", row)
    for file in FIXTURES
    for row in json.loads(file.read_text(encoding="utf-8"))
]
ROWS = [pytest.param(row, id=name) for name, row in FOUND]
ERRORS = [pytest.param(row, id=name) for name, row in FOUND if "body" in row["given"]]


class ApiStatusError(Exception):
    def __init__(self, status: int, body: Any, response: Any = None) -> None:
        super().__init__("the request failed")
        self.status_code = status
        self.body = body
        self.response = response


def as_object(value: Any) -> Any:
    """Return JSON as an SDK would hand it out: attributes all the way down."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_object(item) for key, item in value.items()})
    return [as_object(item) for item in value] if isinstance(value, list) else value


def shown(refusal: Refusal | None) -> tuple[str, str] | None:
    if refusal is None:
        return None
    assert refusal.source is not None
    return refusal.code, refusal.source.name


@pytest.mark.parametrize("row", ROWS)
def test_the_documented_shape_gives_its_code(row: dict[str, Any]) -> None:
    refusal = normalize(row["given"])

    assert (refusal.code if refusal else None) == row["code"]
    if refusal is None:
        return
    source = refusal.source
    assert source is not None
    assert refusal.decided is row.get("decided", True)
    for name in ("name", "path", "native", "served_by", "confidence", "request_id"):
        if name in row:
            assert getattr(source, name) == row[name]
    if "surface" in row:
        assert refusal.surface is Surface(row["surface"])
    if "hidden" in row:
        assert row["hidden"] not in f"{refusal}{source.native}{refusal.evidence}"


@pytest.mark.parametrize("row", ROWS)
def test_json_and_objects_give_the_same_answer(row: dict[str, Any]) -> None:
    given = row["given"]
    expected = shown(normalize(given))

    text = json.dumps(given)
    assert shown(normalize(text)) == expected
    assert shown(normalize(text.encode())) == expected
    if "body" not in given:
        assert shown(normalize(as_object(given))) == expected


@pytest.mark.parametrize("row", ERRORS)
def test_an_error_gives_the_same_answer_as_an_exception(row: dict[str, Any]) -> None:
    status, body = row["given"]["status"], row["given"]["body"]
    expected = shown(normalize(row["given"]))

    assert shown(normalize((status, body))) == expected
    assert shown(normalize(ApiStatusError(status, body))) == expected
    assert shown(normalize(ApiStatusError(status, json.dumps(body)))) == expected
    raw = json.dumps(body).encode()
    response = SimpleNamespace(status_code=status, headers={}, content=raw)
    assert shown(normalize(response)) == expected
    assert shown(normalize(ApiStatusError(status, None, response))) == expected
