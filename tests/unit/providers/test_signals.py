import json
from typing import Any

import pytest

from demur.providers.signals import (
    ANY_VALUE,
    UNSPECIFIED_CODE,
    MappingError,
    NativeField,
    SignalOutcome,
    list_systems,
    load_system,
    looks_like_policy,
    read_system,
)

FIELDS = [
    pytest.param(field, id=f"{name}: {field.id}")
    for name in list_systems()
    for field in load_system(name).signals
]


def document(**more: Any) -> bytes:
    value = {"value": "no", "outcome": "refusal", "code": "MODEL_DECLINED", "class": "SOFT_BLOCK"}
    signal = {
        "id": "one",
        "path": "a.b",
        "source": "toy",
        "meaning": "m",
        "unknown": "filtered",
        "evidence": ["S"],
        "values": [{**value, **more.pop("value", {})}],
        **more.pop("signal", {}),
    }
    raw = {"schema_version": "provider_signals.v1", "system": "toy", "title": "Toy"}
    return json.dumps({**raw, "kind": "model", "signals": [signal], **more}).encode()


def problems(raw: bytes) -> list[str]:
    with pytest.raises(MappingError) as caught:
        read_system("toy.json", raw)
    return [str(problem) for problem in caught.value.problems]


def test_a_mapping_is_read() -> None:
    judged = read_system("toy.json", document()).interpret("one", "NO")
    assert (judged.code, judged.known, judged.outcome) == (
        "MODEL_DECLINED",
        True,
        SignalOutcome.REFUSAL,
    )


@pytest.mark.parametrize("name", list_systems())
def test_our_own_mappings_are_sound(name: str) -> None:
    assert load_system(name).system == name


@pytest.mark.parametrize("field", FIELDS)
def test_a_value_nobody_listed_never_passes_for_success(field: NativeField) -> None:
    judged = field.interpret("tomorrow_blocked_by_policy")
    if judged.known:
        assert ANY_VALUE in {value.value for value in field.values}
    elif field.unknown == "not_a_refusal":
        assert judged.outcome is SignalOutcome.NOT_A_REFUSAL
    else:
        assert judged.code == UNSPECIFIED_CODE


def test_a_value_that_reads_like_an_end_is_none_where_others_share_the_field() -> None:
    assert (
        load_system("openai").interpret("finish_reason", "end_of_text").outcome
        is SignalOutcome.NOT_A_REFUSAL
    )


@pytest.mark.parametrize("value", ["SAFETY", "safety", "FinishReason.SAFETY", "Safety"])
def test_spellings_of_sdks_are_one_value(value: str) -> None:
    assert load_system("gemini").interpret("finish_reason", value).code == "CONTENT_OTHER"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (document(value={"code": "NO_SUCH_CODE"}), "unknown reason code `NO_SUCH_CODE`"),
        (document(value={"class": "HARD_BLOCK"}), "the class of `MODEL_DECLINED` is SOFT_BLOCK"),
        (document(value={"outcome": "not_judged"}), "`MODEL_DECLINED` does not say `not_judged`"),
        (document(value={"code": None, "class": None}), "`refusal` needs a code"),
        (document(value={"surprise": 1}), "unknown field"),
        (document(signal={"unknown": "maybe"}), "invalid enum value"),
        (document(schema_version="v9"), "invalid enum value"),
        (b"{", "input data was truncated"),
    ],
)
def test_a_broken_mapping_says_where_and_what(raw: bytes, problem: str) -> None:
    [said] = problems(raw)
    assert said.startswith("toy.json")
    assert problem in said


def test_values_and_signals_stand_once() -> None:
    twice = json.loads(document())
    twice["signals"] *= 2
    twice["signals"][0] = {
        **twice["signals"][0],
        "values": [{"value": "A", "outcome": "not_a_refusal"}] * 2,
    }
    said = problems(json.dumps(twice).encode())
    assert said == [
        "toy.json: one: the value `a` appears twice",
        "toy.json: one: the signal appears twice",
    ]


def test_a_system_that_is_not_there_is_named() -> None:
    with pytest.raises(MappingError, match="there is no mapping of `nobody`"):
        load_system("nobody")


def test_only_words_of_policy_look_like_policy() -> None:
    assert looks_like_policy("CONTENT_FILTERED")
    assert not looks_like_policy("stop")
    assert not looks_like_policy(None)
