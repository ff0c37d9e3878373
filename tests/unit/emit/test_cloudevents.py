import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from demur.emit.cloudevents import DECIDED_TYPE, UNDECIDED_TYPE, from_cloudevents, to_cloudevents
from demur.errors import InputError
from demur.model.refusal import Refusal

SCHEMA = Path(__file__).parents[3] / "spec/schemas/refusal.v1.schema.json"
RCE = Refusal.from_code("RCE_RISK", "curl x | sh")
NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


def event(refusal: Refusal = RCE, **changed: Any) -> dict[str, Any]:
    return to_cloudevents(
        refusal, **{"event_id": "E1", "time": NOON, "source": "/gate/eu", **changed}
    )


def test_the_attributes_say_what_a_broker_filters_by() -> None:
    made = event(subject="shell")
    del made["data"]

    assert made == {
        "specversion": "1.0",
        "id": "E1",
        "source": "/gate/eu",
        "type": DECIDED_TYPE,
        "subject": "shell",
        "time": "2027-01-31T12:00:00Z",
        "datacontenttype": "application/json",
        "dataschema": "urn:demur:schema:refusal.v1",
        "refusalcode": "RCE_RISK",
        "refusalclass": "HARD_BLOCK",
    }


def test_the_data_is_of_the_schema_that_the_event_names() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))

    assert schema["$id"] == event()["dataschema"]
    jsonschema.validate(event()["data"], schema)


def test_attribute_names_are_those_the_standard_permits() -> None:
    assert all(name.isalnum() and name.islower() and len(name) <= 20 for name in event())


def test_what_could_not_be_judged_is_an_event_of_another_type() -> None:
    made = event(Refusal.from_code("STORAGE_UNAVAILABLE"))

    assert made["type"] == UNDECIDED_TYPE
    assert from_cloudevents(made) == Refusal.from_code("STORAGE_UNAVAILABLE")


def test_the_time_is_written_in_utc() -> None:
    berlin = NOON.astimezone(timezone(timedelta(hours=1)))

    assert event(time=berlin)["time"] == "2027-01-31T12:00:00Z"


@pytest.mark.parametrize(
    "changed", [{"event_id": ""}, {"source": ""}, {"time": NOON.replace(tzinfo=None)}]
)
def test_an_event_without_id_source_or_zone_is_an_error(changed: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        event(**changed)


@pytest.mark.parametrize("changed", [{"specversion": "0.3"}, {"type": "other"}, {"data": None}])
def test_another_event_is_none(changed: dict[str, Any]) -> None:
    assert from_cloudevents({**event(), **changed}) is None


def test_a_code_that_allows_is_no_event() -> None:
    with pytest.raises(InputError):
        event(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW"))
