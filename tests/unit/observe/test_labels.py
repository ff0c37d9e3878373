import msgspec
import pytest
from support.store_records import make_record

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import MissingExtraError
from demur.model.finding import Finding
from demur.observe.labels import NONE, OTHER, MetricLabels, iter_refusals, require_module

CORE = MetricLabels(Registry.load())


def test_registered_values_are_labels_and_all_others_are_one_label() -> None:
    assert CORE.code_label("RCE_RISK") == "RCE_RISK"
    assert CORE.code_label("SUCCESS_MEMORY_SIMILAR_ALLOW") == OTHER  # it refuses nothing
    assert CORE.code_label("user-4711") == OTHER
    assert CORE.verdict_label("DENY") == "DENY"
    assert CORE.verdict_label("deny") == OTHER
    assert CORE.output_label("NEED_CONTEXT") == "NEED_CONTEXT"
    assert CORE.class_label(None) == NONE
    assert CORE.class_label("HARDEST") == OTHER
    assert CORE.surface_label("input") == "input"
    assert CORE.action_label("") == NONE
    assert CORE.action_label("explode") == OTHER


def test_the_surface_of_a_reason_is_where_a_guard_saw_it() -> None:
    seen = [
        msgspec.to_builtins(Finding(code="RCE_RISK", surface=Surface.SKILL)),
        msgspec.to_builtins(Finding(code="RCE_RISK", surface=Surface.TOOL_CALL)),
    ]
    record = make_record(reason_codes=("RCE_RISK",), sealed={"findings": seen})

    assert [one.surface for one in CORE.iter_reasons(record)] == ["skill"]


def test_a_reason_that_no_guard_named_comes_from_where_its_code_belongs() -> None:
    codes = ("CHARGEBACK_RISK_BLOCK", "FAILURE_MEMORY_SIMILAR_BLOCK", "RCE_RISK")
    record = make_record(reason_codes=codes)

    assert [one.surface for one in CORE.iter_reasons(record)] == ["policy", "memory", "policy"]


def test_a_decision_of_the_runtime_has_the_runtime_surface() -> None:
    record = make_record(reason_codes=("RCE_RISK",), basis="runtime")

    assert [one.surface for one in CORE.iter_reasons(record)] == ["runtime"]


def test_a_record_whose_sealed_part_is_gone_or_broken_is_still_counted() -> None:
    for sealed in (None, b'{"findings"'):
        record = msgspec.structs.replace(make_record(), sealed=sealed)

        assert [one.code for one in CORE.iter_reasons(record)] == ["REFUND_OVER_ESCALATION_LIMIT"]


def test_unknown_codes_are_reasons_without_a_name_and_allowing_ones_are_none() -> None:
    codes = ("acme.com/LATE", "SUCCESS_MEMORY_SIMILAR_ALLOW", "RCE_RISK", "RCE_RISK")
    record = make_record(reason_codes=codes)

    assert [one[:3] for one in CORE.iter_reasons(record)] == [
        (OTHER, OTHER, OTHER),
        ("RCE_RISK", "HARD_BLOCK", "policy"),
    ]


LABELS = MetricLabels(Registry.load())


def test_each_registered_reason_is_a_refusal_that_names_its_decision() -> None:
    record = make_record(7, reason_codes=("RCE_RISK", "acme.com/LATE", "CHARGEBACK_RISK_BLOCK"))

    first, second = iter_refusals(record, LABELS)

    assert first.line == f"REFUSED: RCE_RISK: decision {record.decision_id}"
    assert (second.code, second.surface) == ("CHARGEBACK_RISK_BLOCK", "policy")
    assert second.decision_id == record.decision_id


def test_nothing_personal_is_in_them() -> None:
    record = make_record(sealed={"requester": "user:ada", "request": {"note": "hush"}})

    assert "ada" not in repr(list(iter_refusals(record, LABELS)))
    assert "hush" not in repr(list(iter_refusals(record, LABELS)))


def test_an_extra_that_is_not_there_says_how_to_get_it() -> None:
    with pytest.raises(MissingExtraError, match="`no-such-client` package") as caught:
        require_module("no_such_client.part", "metrics")

    assert caught.value.help == "pip install 'demur[observe]'"


def test_an_extra_that_is_there_is_returned() -> None:
    assert require_module("json", "tests").loads("1") == 1
