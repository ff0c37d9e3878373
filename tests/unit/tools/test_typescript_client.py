"""What the TypeScript client takes from Python is what Python has."""

import json
import re
from pathlib import Path

import msgspec
import pytest
import typescript_client
import yaml

from demur.codes.registry import Registry
from demur.model.finding import Finding
from demur.model.refusal import Refusal
from demur.service.routes.enforce import Enforced
from demur.version import __version__

ROOT = Path(__file__).parents[3]


def fields_of(name: str, text: str) -> dict[str, str]:
    """Return the fields of an interface, by name as it is written, `?` included."""
    body = text.partition(f"export interface {name} {{\n")[2].partition("\n}")[0]
    return dict(re.findall(r"readonly (\w+\??): (.*);", body))


@pytest.fixture(scope="module")
def wire() -> str:
    return typescript_client.render_wire(Registry.load())


def test_the_package_has_the_version_of_demur() -> None:
    package = json.loads((ROOT / "clients/typescript/package.json").read_text("utf-8"))

    assert package["version"] == __version__
    assert package["private"] is True
    assert "dependencies" not in package


def test_the_cases_are_those_of_the_specification() -> None:
    cases = json.loads(typescript_client.render_cases())

    paths = {path.stem: path for path in (ROOT / "spec/cases").glob("*.yaml")}
    assert set(cases) == set(paths)
    for stem, path in paths.items():
        assert cases[stem] == yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("kind", [Refusal, Enforced])
def test_an_answer_has_every_field(kind: type[msgspec.Struct], wire: str) -> None:
    assert set(fields_of(kind.__name__, wire)) == set(kind.__struct_fields__)


def test_a_body_may_leave_out_what_has_a_default(wire: str) -> None:
    fields = fields_of("EnforceToolCall", wire)

    assert fields["name"] == "string"
    assert fields["arguments?"] == "JsonObject | string"
    assert fields["grants?"] == "readonly Grant[]"
    # A finding stands in bodies and in records.
    assert {"code", "surface", "detail?"} <= set(fields_of(Finding.__name__, wire))


def test_codes_are_typed_as_codes(wire: str) -> None:
    record = fields_of("DecisionRecord", wire)

    assert record["reason_codes"] == "readonly AnyReasonCode[]"
    assert record["leading_code"] == "AnyReasonCode | null"
    assert record["findings"] == "readonly Finding[] | null"


def test_every_code_that_stands_for_a_failed_check_has_words(wire: str) -> None:
    words = json.loads(wire.partition("UNDECIDED_WORDS = ")[2].partition(" as const")[0])

    assert set(words) == {entry.code for entry in Registry.load() if not entry.decided}
    assert all(one["message"] and one["text"] for one in words.values())
