import msgspec
from store_records import make_record

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.model.finding import Finding
from demur.observe.labels import NONE, OTHER, MetricLabels

CORE = MetricLabels(Registry.load())


def test_what_is_registered_stays_and_all_else_is_one_value() -> None:
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


def test_what_demur_itself_decided_comes_from_the_runtime() -> None:
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
