import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Severity
from demur.emit.events import (
    DECIDED_TYPE,
    UNDECIDED_TYPE,
    from_cloudevents,
    from_ocsf,
    to_cloudevents,
    to_milliseconds,
    to_ocsf,
    to_utc,
)
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


def test_an_undecided_refusal_is_an_event_of_another_type() -> None:
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


CORE = Registry.load()


def finding(refusal: Refusal, **changed: Any) -> dict[str, Any]:
    return to_ocsf(refusal, **{"event_id": "E1", "time": NOON, "registry": CORE, **changed})


def test_the_class_needs_these_attributes_and_has_them() -> None:
    made = finding(Refusal.from_code("RCE_RISK", "curl x | sh", source="shell", decision_id="D1"))

    numbers = ("category_uid", "class_uid", "activity_id", "type_uid", "time", "severity_id")
    assert [made[name] for name in numbers] == [2, 2004, 1, 200401, 1_801_396_800_000, 5]
    assert made["message"] == "REFUSED: RCE_RISK: curl x | sh"
    assert made["finding_info"]["uid"] == made["metadata"]["uid"] == "E1"
    assert made["finding_info"]["title"] == CORE["RCE_RISK"].title
    assert made["finding_info"]["analytic"]["name"] == "shell"
    assert made["metadata"]["profiles"] == ["security_control"]
    assert made["metadata"]["correlation_uid"] == "D1"
    assert made["metadata"]["product"]["name"] == "demur"


@pytest.mark.parametrize(
    ("code", "action", "disposition"),
    [
        ("RCE_RISK", (2, "Denied"), (2, "Blocked")),
        ("MODEL_DECLINED", (2, "Denied"), (25, "Rejected")),
        ("SCOPE_MISSING", (2, "Denied"), (25, "Rejected")),
        ("RATE_LIMIT", (2, "Denied"), (25, "Rejected")),
        ("APPROVAL_REQUIRED", (2, "Denied"), (26, "Unauthorized")),
        ("AUTHORIZATION_MISSING", (2, "Denied"), (26, "Unauthorized")),
        ("GUARDRAIL_UNAVAILABLE", (0, "Unknown"), (27, "Error")),
    ],
)
def test_the_class_says_how_it_ended(
    code: str, action: tuple[int, str], disposition: tuple[int, str]
) -> None:
    made = finding(Refusal.from_code(code))

    assert (made["action_id"], made["action"]) == action
    assert (made["disposition_id"], made["disposition"]) == disposition


def test_a_hard_block_that_was_not_judged_is_an_error_all_the_same() -> None:
    odd = msgspec.structs.replace(
        Refusal.from_code("GUARDRAIL_PARTIAL"), refusal_class=RefusalClass.HARD_BLOCK
    )

    assert finding(odd)["disposition"] == "Error"


@pytest.mark.parametrize(("severity", "number"), list(zip(Severity, range(1, 6), strict=True)))
def test_severities_keep_their_order(severity: Severity, number: int) -> None:
    refusal = msgspec.structs.replace(Refusal.from_code("RCE_RISK"), severity=severity)

    assert finding(refusal)["severity_id"] == number


def test_a_code_that_is_not_loaded_is_its_own_title() -> None:
    foreign = msgspec.structs.replace(
        Refusal.from_code("CONTEXT_MISSING"), code="acme.com/KYC_EXPIRED", line=""
    )
    made = finding(foreign)

    assert made["finding_info"]["title"] == "acme.com/KYC_EXPIRED"
    assert made["finding_info"]["analytic"]["name"] == "demur"
    assert made["disposition"] == "Rejected"
    assert from_ocsf(made) == foreign


def test_an_ocsf_finding_uses_the_default_registry_if_none_is_passed() -> None:
    assert finding(Refusal.from_code("RCE_RISK"), registry=None)["finding_info"]["types"] == [
        "guard"
    ]


@pytest.mark.parametrize("changed", [{"event_id": ""}, {"time": NOON.replace(tzinfo=None)}])
def test_a_finding_without_id_or_zone_is_an_error(changed: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        finding(Refusal.from_code("RCE_RISK"), **changed)


def test_another_class_is_none() -> None:
    assert from_ocsf({**finding(Refusal.from_code("RCE_RISK")), "class_uid": 1001}) is None


def test_a_code_that_allows_is_no_finding() -> None:
    with pytest.raises(InputError):
        finding(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW"))


def test_a_moment_is_the_same_in_utc() -> None:
    berlin = datetime(2027, 1, 31, 13, tzinfo=timezone(timedelta(hours=1)))

    assert to_utc(berlin).isoformat() == "2027-01-31T12:00:00+00:00"


def test_milliseconds_are_whole_and_may_lie_before_the_epoch() -> None:
    assert to_milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC)) == 1000
    assert to_milliseconds(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1000


@pytest.mark.parametrize(
    ("moment", "problem"),
    [
        (datetime(2027, 1, 31), "time zone"),  # noqa: DTZ001 - what must be refused
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "out of range"),
    ],
)
def test_an_ambiguous_time_is_refused(moment: datetime, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        to_utc(moment)
