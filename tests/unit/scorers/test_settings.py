from datetime import date
from typing import Any

import msgspec
import pytest
from support.gates import CORE

from demur.errors import InputError
from demur.gate.guard_pipeline import build_pipeline
from demur.gate.guard_settings import GuardSettings, read_guard_settings
from demur.model.finding import Action
from demur.scorers.settings import ModelSettings, check_model_settings

URL = "http://localhost:8000/v1"


def settings(**models: Any) -> GuardSettings:
    return read_guard_settings({"models": models}, "guards")


def test_four_lines_are_enough() -> None:
    line = build_pipeline(
        settings(llama_guard={"kind": "llama_guard", "url": URL, "model": "guard"}),
        "input",
        "output",
        "tool_result",
        registry=CORE,
    )
    [scorer] = [one for one in line.scorers if one.name == "llama_guard"]
    assert scorer.model == "guard"
    assert scorer.surfaces == {"input", "output"}
    assert scorer.on_failure == "closed"


def test_codes_and_actions_can_be_changed() -> None:
    whole = ModelSettings(
        kind="llama_guard",
        action=Action.WARN,
        actions={"S1": Action.BLOCK},
        codes={"S6": "UNGROUNDED"},
    )
    found = {name: (one.code, one.action) for name, one in whole.meanings.items()}
    assert found["S1"] == ("CONTENT_VIOLENCE", "block")
    assert found["S6"] == ("UNGROUNDED", "warn")
    assert found["S2"] == ("CONTENT_CRIME", "warn")


OWN = {"kind": "openai_compatible", "url": URL, "model": "m", "prompt": "p"}
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"kind": "llama"}, "guards.models.guard.kind", "invalid enum value"),
    (
        {"kind": "llama_guard", "url": URL, "key": "k"},
        "guards.models.guard",
        "unknown setting `key`",
    ),
    ({"kind": "llama_guard"}, "guards.models.guard.url", "needs `url`"),
    ({"kind": "llama_guard", "url": "localhost:8000"}, "guards.models.guard.url", "not an HTTP"),
    ({"kind": "llama_guard", "url": "http://u:p@h/v1"}, "guards.models.guard.url", "holds no key"),
    ({"kind": "llama_guard", "url": f"{URL}?key=1"}, "guards.models.guard.url", "holds no key"),
    (
        {"kind": "llama_guard", "url": URL, "region": "x"},
        "guards.models.guard.region",
        "no setting of",
    ),
    ({"kind": "llama_guard", "url": URL, "timeout_s": 0}, "guards.models.guard.timeout_s", "float"),
    (
        {"kind": "llama_guard", "url": URL, "on_failure": "open"},
        "guards.models.guard.on_failure",
        "enum",
    ),
    (
        {"kind": "llama_guard", "url": URL, "codes": {"S1": "NOPE"}},
        "guards.models.guard.codes.S1",
        "not registered",
    ),
    (
        {"kind": "llama_guard", "url": URL, "codes": {"S 1": "CONTENT_OTHER"}},
        "guards.models.guard.codes",
        "cannot name",
    ),
    (
        {"kind": "llama_guard", "url": URL, "categories": ["S1"]},
        "guards.models.guard.categories",
        "at once",
    ),
    (
        {"kind": "granite_guardian", "url": URL, "categories": ["x"]},
        "guards.models.guard.categories",
        "unknown category",
    ),
    (
        {"kind": "bedrock_guardrails", "guardrail": "g"},
        "guards.models.guard.region",
        "needs `region`",
    ),
    ({"kind": "google_model_armor"}, "guards.models.guard.template", "needs `template`"),
    ({"kind": "onnx", "path": "/nowhere/at/all"}, "guards.models.guard.path", "there is no"),
    (OWN, "guards.models.guard", "how to read"),
    ({**OWN, "reply_regex": {"a": "x"}}, "guards.models.guard.reply_valid", "needs `reply_valid`"),
    (
        {**OWN, "reply_regex": {"a": "("}, "reply_valid": "x"},
        "guards.models.guard.reply_regex.a",
        "not a regular expression: missing )",
    ),
    ({**OWN, "reply_json": {"a b": "x"}}, "guards.models.guard", "cannot name"),
    (
        {"kind": "llama_guard", "url": URL, "surfaces": []},
        "guards.models.guard.surfaces",
        "never asked",
    ),
    (
        {"kind": "llama_guard", "url": URL, "surfaces": ["input", "memory"]},
        "guards.models.guard.surfaces",
        "`memory` has no text",
    ),
    (
        {"kind": "llama_guard", "url": URL, "flag_above": 0.5},
        "guards.models.guard.flag_above",
        "no setting of",
    ),
    (
        {"kind": "onnx", "path": "p", "api_key_env": "KEY"},
        "guards.models.guard.api_key_env",
        "no setting of",
    ),
    (
        {"kind": "llama_guard", "url": URL, "actions": {"s1": "warn"}},
        "guards.models.guard.actions",
        "unknown category `s1`",
    ),
    (
        {"kind": "llama_guard", "url": URL, "actions": {"S77": "warn"}},
        "guards.models.guard.actions",
        "unknown category `S77`",
    ),
    (
        {"kind": "openai_moderation", "codes": {"Violence": "CONTENT_OTHER"}},
        "guards.models.guard.codes",
        "unknown category `Violence`",
    ),
    (
        {**OWN, "reply_json": {"toxic": "t"}, "codes": {"toxik": "CONTENT_OTHER"}},
        "guards.models.guard.codes",
        "unknown category `toxik`",
    ),
    (
        {**OWN, "reply_json": {"a": "a"}, "request": {"stream": True}},
        "guards.models.guard.request",
        "`stream` of a request",
    ),
    (
        {**OWN, "reply_json": {"a": "a"}, "request": {"day": date(2026, 1, 1)}},
        "guards.models.guard.request",
        "not JSON",
    ),
    ({"url": URL}, "guards.models.guard", "needs `kind`"),
]


@pytest.mark.parametrize(("fields", "where", "problem"), WRONG)
def test_a_wrong_setting_is_explained(fields: dict[str, Any], where: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        build_pipeline(settings(guard=fields), "input", registry=CORE)
    assert (caught.value.where, problem in caught.value.problem) == (where, True), caught.value


@pytest.mark.parametrize(("fields", "where", "problem"), WRONG)
def test_a_wrong_setting_comes_with_a_remedy(
    fields: dict[str, Any], where: str, problem: str
) -> None:
    del where, problem
    with pytest.raises(InputError) as caught:
        build_pipeline(settings(guard=fields), "input", registry=CORE)
    assert caught.value.help, caught.value


def test_a_new_category_of_a_model_gets_a_code_and_then_an_action() -> None:
    model = ModelSettings(
        kind="llama_guard", url=URL, codes={"S77": "CONTENT_FRAUD"}, actions={"S77": Action.WARN}
    )
    found = check_model_settings("m", model, CORE).meanings["S77"]
    assert (found.code, found.action) == ("CONTENT_FRAUD", "warn")


@pytest.mark.parametrize("key", ["sk-proj-abc123", "ya29.abc", "a b", "x" * 101])
def test_a_key_in_the_place_of_its_variable_is_not_shown(key: str) -> None:
    with pytest.raises(InputError, match="not the name of an environment variable") as caught:
        check_model_settings("m", ModelSettings(kind="llama_guard", url=URL, api_key_env=key), CORE)
    assert key not in str(caught.value)


def test_a_name_that_rules_cannot_write_is_an_error() -> None:
    model = {"kind": "llama_guard", "url": URL}
    with pytest.raises(InputError, match="cannot name"):
        build_pipeline(settings(**{"llama guard": model}), "input", registry=CORE)
    with pytest.raises(InputError, match="expected a table"):
        read_guard_settings({"models": [model]}, "guards")


def test_a_model_may_be_in_shadow() -> None:
    model = {"kind": "llama_guard", "url": URL}
    table = {"models": {"guard": model}, "shadow": ["guard"]}
    build_pipeline(read_guard_settings(table, "guards"), "input", registry=CORE)
    with pytest.raises(InputError, match="unknown guard or code"):
        build_pipeline(
            read_guard_settings({**table, "shadow": ["gard"]}, "guards"), "input", registry=CORE
        )


def test_a_threshold_of_0_is_kept() -> None:
    model = ModelSettings(kind="azure_content_safety", url=URL, flag_above=0.0)
    assert check_model_settings("m", model, CORE).flag_above == 0.0


def test_defaults_of_the_kind_are_filled_in() -> None:
    whole = check_model_settings("m", ModelSettings(kind="openai_moderation"), CORE)
    assert (whole.url, whole.api_key_env) == ("https://api.openai.com/v1", "OPENAI_API_KEY")
    assert whole.max_length == 20_000
    assert msgspec.structs.replace(whole, timeout_s=9.0).digest == whole.digest
