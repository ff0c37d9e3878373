from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Severity
from demur.emit.ocsf import from_ocsf, to_ocsf
from demur.errors import InputError
from demur.model.refusal import Refusal

CORE = Registry.load()
NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


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


def test_the_default_registry_is_asked_where_none_is_given() -> None:
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
