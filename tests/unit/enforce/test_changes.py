"""Texts that are changed instead of refused, shadow mode, settings of tools, and approvals."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from support.gates import opened
from support.sample_guards import seeing

from demur import Enforcer, open_enforcer, safe_generate
from demur.codes.vocabulary import DecisionOutput, Surface
from demur.enforce import CallContext, read_agent_policy, safe_stream
from demur.enforce.changes import read_on_finding
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.grants.resolution import GrantRejection
from demur.model.finding import Finding, Span
from demur.policy.loader import parse_policy

AGENT_RULES = parse_policy(read_agent_policy())
KEY = "AKIAQ3EGRIFLV7XY2ABC"
CARD = "4539 1488 0343 6467"
TEXT = f"The key is {KEY}, and the card {CARD}."
BLOTTED = "The key is [removed], and the card [removed]."
BOTH = ("redact:SECRET_LEAK", "redact:PII_DETECTED")
ADA = CallContext("test", subject={"type": "user", "id": "ada"})
DELETE = ("bash", {"command": "rm -rf /srv/data"})


@pytest.fixture
def gate() -> Any:
    with opened(AGENT_RULES) as gate:
        yield gate


def check_everywhere(enforcer: Enforcer, text: str = TEXT) -> dict[str, Any]:
    """Return the result of each check, and the text that goes on."""
    arguments = {"body": text, "to": ["a", "b"]}
    results = {
        "input": (enforcer.check_prompt(text), text),
        "output": (enforcer.check_answer(text), text),
        "tool_call": (enforcer.check_tool_call("note", arguments), arguments),
        "tool_result": (enforcer.check_tool_result("read", text), text),
        "retrieval": (enforcer.check_event("retrieval", {"text": text}, action="read"), text),
    }
    return {
        name: (result, result.apply_changes(value)) for name, (result, value) in results.items()
    }


@pytest.mark.parametrize("has_gate", [True, False])
def test_secrets_and_personal_data_are_taken_out_on_every_surface(
    gate: Gate, has_gate: bool
) -> None:
    enforcer = Enforcer(gate if has_gate else None, on_finding="redact")
    for surface, (result, changed) in check_everywhere(enforcer).items():
        assert result.allowed, surface
        assert result.constraints == BOTH
        assert changed == (
            {"body": BLOTTED, "to": ["a", "b"]} if surface == "tool_call" else BLOTTED
        )
        if has_gate:
            assert result.record.decision_output is DecisionOutput.ALLOW_CONSTRAINED
            assert set(result.record.accepted) == set(BOTH)
            assert KEY.encode() not in result.record.sealed


def test_a_mask_keeps_the_layout(gate: Gate) -> None:
    result = Enforcer(gate, on_finding={"PII_DETECTED": "mask"}).check_answer(f"Card {CARD}.")

    assert result.apply_changes(f"Card {CARD}.") == "Card **** **** **** ****."
    assert result.constraints == ("mask:PII_DETECTED",)


def test_a_surface_goes_before_all_surfaces(gate: Gate) -> None:
    settings: Any = {"SECRET_LEAK": "redact", "output": {"SECRET_LEAK": "refuse"}}
    enforcer = Enforcer(gate, on_finding=settings)

    assert enforcer.check_tool_result("read", f"The key is {KEY}.").changes is not None
    assert enforcer.check_answer(f"The key is {KEY}.").refusal is not None


def test_a_text_with_something_else_in_it_is_refused(gate: Gate) -> None:
    enforcer = Enforcer(gate, on_finding={"SECRET_LEAK": "redact"})
    result: Any = enforcer.check_answer(TEXT)

    assert result.changes is None
    assert set(result.record.reason_codes) == {"SECRET_LEAK", "PII_DETECTED"}
    assert not result.constraints


def test_a_finding_without_a_place_is_refused(gate: Gate) -> None:
    seen = Finding(code="TOPIC_DENIED", surface=Surface.INPUT)
    pipeline = GuardPipeline([GuardStep(seeing(seen, codes=("TOPIC_DENIED",)))])
    result = Enforcer(gate, pipeline=pipeline, on_finding={"TOPIC_DENIED": "redact"}).check_prompt(
        "x"
    )

    assert result.refusal is not None


def test_a_mark_that_a_guard_makes_lifts_nothing(gate: Gate) -> None:
    marked = Finding(
        code="TOPIC_DENIED",
        surface=Surface.INPUT,
        span=Span(start=0, end=1),
        evidence={"on_finding": "redact"},
    )
    pipeline = GuardPipeline([GuardStep(seeing(marked, codes=("TOPIC_DENIED",)))])
    for own_gate in (gate, None):
        for setting in (None, "redact"):
            enforcer = Enforcer(own_gate, pipeline=pipeline, on_finding=setting)
            assert not enforcer.check_prompt(f"x {KEY}").allowed


def test_numbers_and_names_of_arguments_are_changed(gate: Gate) -> None:
    arguments = {"card": 4539148803436467, "items": [{"note": f"key {KEY}"}], "n": 3, "on": True}
    result = Enforcer(gate, on_finding="redact").check_tool_call("pay", arguments)

    assert result.apply_changes(arguments) == {
        "card": "[removed]",
        "items": [{"note": "key [removed]"}],
        "n": 3,
        "on": True,
    }


def test_changes_show_nothing_of_the_text(gate: Gate) -> None:
    result = Enforcer(gate, on_finding="redact").check_prompt(TEXT)

    assert KEY not in repr(result.changes)
    assert repr(result.changes) == "<TextChanges of 2 texts>"


def test_an_unchanged_value_stays_the_same_object(gate: Gate) -> None:
    result = Enforcer(gate, on_finding="redact").check_prompt(TEXT)
    value = {"a": ["b", 1, None], "c": "d"}

    assert result.apply_changes(value) is value
    assert Enforcer(gate).check_prompt("hello").apply_changes(value) is value


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_goes_on_without_what_is_taken_out(gate: Gate, size: int) -> None:
    stream = Enforcer(gate, on_finding="redact").stream_answer()
    shown = "".join(stream.feed(TEXT[at : at + size]) for at in range(0, len(TEXT), size))
    result = stream.finish()

    assert result.allowed
    assert shown + stream.remaining_text == BLOTTED


def test_a_stream_of_long_text_shows_its_beginning_early(gate: Gate) -> None:
    stream = Enforcer(gate, on_finding={"output": {"SECRET_LEAK": "mask"}}).stream_answer()
    words = "All is well, and nothing is amiss here. " * 60
    shown = stream.feed(words) + stream.feed(f"Then {KEY} came. ") + stream.feed(words)
    assert shown.startswith("All is well")

    result = stream.finish()
    assert result.allowed
    assert shown + stream.remaining_text == f"{words}Then {'*' * 20} came. {words}"


def test_an_answer_that_may_be_given_again_is_held(gate: Gate) -> None:
    stream = Enforcer(gate, on_finding={"output": "reask"}).stream_answer()
    assert not stream.feed("word " * 1000)
    assert not stream.feed(TEXT)

    result = stream.finish()
    assert result.may_reask
    assert result.reask_message.startswith("REFUSED: SECRET_LEAK")


def test_a_hard_block_is_not_asked_for_again(gate: Gate) -> None:
    seen = [
        Finding(code=code, surface=Surface.OUTPUT, span=Span(start=0, end=1))
        for code in ("CONTENT_PROFANITY", "CONTENT_CBRN")
    ]
    pipeline = GuardPipeline(
        [GuardStep(seeing(*seen, codes=("CONTENT_PROFANITY", "CONTENT_CBRN"), surface="output"))]
    )
    result = Enforcer(gate, pipeline=pipeline, on_finding={"output": "reask"}).check_answer("x")

    assert not result.allowed
    assert not result.may_reask
    assert not result.reask_message


def test_a_model_is_asked_once_more(gate: Gate) -> None:
    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return "All is well." if len(prompts) > 1 else TEXT

    answer = safe_generate("How is it?", model, gate=gate, on_finding={"output": "reask"})

    assert answer.text == "All is well."
    assert not answer.blocked
    assert prompts[0] == "How is it?"
    assert prompts[1].startswith("How is it?\n\nREFUSED: SECRET_LEAK")


def test_a_model_is_not_asked_a_third_time(gate: Gate) -> None:
    prompts: list[str] = []

    def model(prompt: str) -> list[str]:
        prompts.append(prompt)
        return [TEXT]

    stream = safe_stream("How is it?", model, gate=gate, on_finding={"output": "reask"})
    shown = "".join(stream)

    assert len(prompts) == 2
    assert stream.answer.blocked
    assert KEY not in shown


def test_a_model_gets_the_changed_prompt(gate: Gate) -> None:
    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return f"You wrote {KEY}."

    answer = safe_generate(TEXT, model, gate=gate, on_finding="redact")

    assert prompts == [BLOTTED]
    assert answer.text == "You wrote [removed]."
    assert not answer.blocked


@pytest.mark.parametrize(
    ("setting", "where"),
    [
        ("blot", "on_finding"),
        ({"SECRETS": "redact"}, "on_finding.SECRETS"),
        ({"CONTENT_CBRN": "redact"}, "on_finding.CONTENT_CBRN"),
        ({"INTERNAL_ERROR": "refuse"}, "on_finding.INTERNAL_ERROR"),
        ({"UNAPPROVED_DESTRUCTION": "mask"}, "on_finding.UNAPPROVED_DESTRUCTION"),
        ({"output": {"CONTENT_CSAE": "reask"}}, "on_finding.output.CONTENT_CSAE"),
        ({"input": "reask"}, "on_finding.input"),
        ({"tool_call": {"TOPIC_DENIED": "mask"}}, "on_finding.tool_call.TOPIC_DENIED"),
        ({"rate": "redact"}, "on_finding.rate"),
    ],
)
def test_a_setting_that_cannot_be_kept_is_an_error(setting: Any, where: str) -> None:
    with pytest.raises(InputError) as caught:
        Enforcer(on_finding=setting)

    assert caught.value.where == where
    assert caught.value.help


def test_a_setting_of_another_type_is_an_error() -> None:
    with pytest.raises(InputTypeError, match="on_finding"):
        Enforcer(on_finding=["redact"])  # type: ignore[arg-type]


def test_an_adapter_changes_only_what_it_carries(gate: Gate) -> None:
    wide = Enforcer(gate, on_finding="redact")
    narrow = Enforcer.coerce(wide, carried={Surface.TOOL_RESULT})

    assert narrow.check_answer(TEXT).changes is None
    assert narrow.check_tool_result("read", TEXT).changes is not None
    assert Enforcer.coerce(wide).check_tool_result("read", TEXT).changes is None
    assert Enforcer.coerce(wide, carried=set(Surface)) is wide
    with pytest.raises(InputError, match="cannot be changed here"):
        Enforcer.coerce(gate, on_finding={"output": "mask"}, carried={Surface.INPUT})


def test_a_named_surface_that_an_adapter_cannot_change_is_refused(gate: Gate) -> None:
    wide = Enforcer(gate, on_finding={"input": "redact", "tool_result": "mask"})
    narrow = Enforcer.coerce(wide, carried={Surface.TOOL_RESULT})

    assert wide.check_prompt(TEXT).changes is not None
    refusal = narrow.check_prompt(TEXT).refusal
    assert refusal is not None
    assert refusal.code == "SECRET_LEAK"
    assert narrow.check_tool_result("read", TEXT).changes is not None
    assert not Enforcer.coerce(narrow).check_tool_result("read", TEXT).allowed
    other = Enforcer.coerce(wide, on_finding={"tool_result": "mask"}, carried={Surface.TOOL_RESULT})
    assert other.check_prompt(TEXT).allowed
    assert Enforcer.coerce(Enforcer(gate, on_finding="redact")).check_prompt(TEXT).allowed


def test_general_settings_are_about_secrets_and_all_soft_answers() -> None:
    registry = Enforcer().registry
    blots = read_on_finding("mask", registry)
    assert {code for codes in blots.values() for code in codes} == {"SECRET_LEAK", "PII_DETECTED"}

    again = read_on_finding("reask", registry)
    assert set(again) == {Surface.OUTPUT}
    assert "CONTENT_PROFANITY" in again[Surface.OUTPUT]
    assert "CONTENT_CBRN" not in again[Surface.OUTPUT]


def test_shadow_mode_records_and_refuses_nothing(gate: Gate) -> None:
    shadow = Enforcer(gate, mode="shadow", on_finding="redact")
    result: Any = shadow.check_answer(TEXT)

    assert result.allowed
    assert result.apply_changes(TEXT) == TEXT
    assert not result.record.enforced
    assert result.record.reason_codes == ("SECRET_LEAK", "PII_DETECTED")
    assert not Enforcer(gate).check_answer(TEXT).allowed
    assert Enforcer.coerce(shadow, mode="enforce").check_answer(TEXT).refusal is not None


def test_shadow_mode_without_a_gate_reports_findings() -> None:
    shadow = Enforcer(mode="shadow")

    assert shadow.check_answer(TEXT).allowed
    assert shadow.check_answer(TEXT).findings
    assert shadow.check_tool_call(*DELETE).allowed


def test_a_stream_in_shadow_mode_is_not_held(gate: Gate) -> None:
    stream = Enforcer(gate, mode="shadow").stream_answer()

    assert stream.feed(TEXT) == TEXT
    assert stream.finish().allowed
    assert not stream.remaining_text


def test_an_unknown_mode_is_an_error(gate: Gate) -> None:
    with pytest.raises(InputError, match="unknown mode `dry`"):
        Enforcer(gate, mode="dry")  # type: ignore[arg-type]


def test_a_tool_has_settings_of_its_own(gate: Gate) -> None:
    tools: dict[str, dict[str, Any]] = {
        "drop": {"deny": True},
        "run": {"command": "script"},
        "poll": {"loops": False},
        "trial": {"mode": "shadow"},
    }
    enforcer = Enforcer(gate, tools=tools)
    run = CallContext("test", run="1")

    assert enforcer.check_tool_call("drop", {}).line.startswith("REFUSED: TOOL_NOT_ALLOWED")
    assert enforcer.check_tool_call("run", {"script": "rm -rf /"}).is_hard
    assert all(enforcer.check_tool_call("poll", {"id": 1}, run).allowed for _ in range(30))
    assert not all(enforcer.check_tool_call("look", {"id": 1}, run).allowed for _ in range(30))
    trial = enforcer.check_tool_call("trial", {"command": "rm -rf /srv/data"})
    assert trial.allowed
    assert Enforcer(tools=tools).check_tool_call("trial", {"command": "rm -rf /srv/data"}).allowed


@pytest.mark.parametrize("tool", [{"denied": True}, {"mode": "dry"}, {"loops": "no"}])
def test_an_unknown_setting_of_a_tool_is_an_error(tool: Any) -> None:
    with pytest.raises(InputError) as caught:
        Enforcer(tools={"drop": tool})

    assert str(caught.value.where).startswith("tools.drop")


def test_settings_of_a_file_apply_where_they_can(tmp_path: Any) -> None:
    path = tmp_path / "demur.toml"
    (tmp_path / "policy.yaml").write_text(read_agent_policy())
    path.write_text(
        'policy = "policy.yaml"\nstore = ":memory:"\n[guards.on_finding]\nSECRET_LEAK = "redact"\n'
        '[guards.tools.trial]\nmode = "shadow"\n'
    )
    with open_enforcer(path) as enforcer:
        assert enforcer.check_answer(f"It is {KEY}.").apply_changes(KEY) == "[removed]"
        assert enforcer.check_tool_call("trial", {"command": "rm -rf /srv/data"}).allowed
        assert Enforcer.coerce(enforcer).check_answer(f"It is {KEY}.").refusal is not None


def test_a_person_approves_one_call_once(gate: Gate) -> None:
    enforcer = Enforcer(gate)
    refused = enforcer.check_tool_call(*DELETE, ADA)
    grants = enforcer.approve(refused, "ada")

    allowed: Any = enforcer.check_tool_call(*DELETE, ADA, grants=grants)
    again: Any = enforcer.check_tool_call(*DELETE, ADA, grants=grants)
    fresh = enforcer.approve(refused, "ada")
    other: Any = enforcer.check_tool_call("bash", {"command": "rm -rf /srv"}, ADA, grants=fresh)

    assert allowed.allowed
    assert allowed.record.personal.grants[0].granted_by == "person:ada"
    assert [one.why for one in again.record.ignored_grants] == [GrantRejection.USED_UP]
    assert [one.why for one in other.record.ignored_grants] == [GrantRejection.OUT_OF_SCOPE]


def test_another_gate_knows_nothing_of_an_approval(gate: Gate) -> None:
    enforcer = Enforcer(gate)
    grants = enforcer.approve(enforcer.check_tool_call(*DELETE, ADA), "ada")
    with opened(AGENT_RULES) as other:
        result: Any = Enforcer(other).check_tool_call(*DELETE, ADA, grants=grants)

    assert [one.why for one in result.record.ignored_grants] == [GrantRejection.UNKNOWN_KEY]


def test_nobody_approves_a_hard_block(gate: Gate) -> None:
    enforcer = Enforcer(gate)

    assert not enforcer.approve(
        enforcer.check_tool_call("bash", {"command": "rm -rf /"}, ADA), "ada"
    )
    assert not enforcer.approve(enforcer.check_tool_call("look", {}, ADA), "ada")


def test_an_approval_needs_a_name_and_a_gate(gate: Gate) -> None:
    refused = Enforcer(gate).check_tool_call(*DELETE, ADA)

    with pytest.raises(InputError, match="names the person"):
        Enforcer(gate).approve(refused, " ")
    with pytest.raises(InputError, match="names the person"):
        Enforcer(gate).approve(refused, "ada ")
    with pytest.raises(InputError, match="names the person"):
        Enforcer(gate).approve(refused, "Ze\u0301")
    with pytest.raises(InputError, match="recorded by a gate"):
        Enforcer().approve(refused, "ada")


def test_secrets_are_refused_where_a_setting_says_so(gate: Gate) -> None:
    asked = {name: {"SECRET_LEAK": "refuse"} for name in ("input", "tool_call", "tool_result")}
    for enforcer in (
        Enforcer(gate, on_finding=asked),
        Enforcer(gate, on_finding="redact").refuse_changes(),
    ):
        text = f"The key is {KEY}."
        results: list[Any] = [
            enforcer.check_prompt(text),
            enforcer.check_tool_call("note", {"body": text}),
            enforcer.check_tool_result("read", text),
        ]
        assert [one.refusal.code for one in results] == ["SECRET_LEAK"] * 3
    assert Enforcer(gate).check_prompt(text).allowed


def test_a_holder_approves_no_request_of_their_own(gate: Gate) -> None:
    own = CallContext("test", subject={"type": "person", "id": "ada"})
    enforcer = Enforcer(gate)
    refused = enforcer.check_tool_call(*DELETE, own)

    assert not enforcer.approve(refused, "ada")
    assert enforcer.check_tool_call(*DELETE, own, grants=enforcer.approve(refused, "bob")).allowed


ESCAPED = f'{{"note": "{"All is well today. " * 60}\\nkey {KEY}", "rest": "end"}}'


@pytest.mark.parametrize("action", ["redact", "mask"])
@pytest.mark.parametrize("size", [1, 40, 5000])
def test_a_stream_of_json_with_escapes_is_shown_to_its_end(
    gate: Gate, action: str, size: int
) -> None:
    enforcer = Enforcer(gate, on_finding=action)
    stream = enforcer.stream_answer()
    shown = "".join(stream.feed(ESCAPED[at : at + size]) for at in range(0, len(ESCAPED), size))

    assert stream.finish().allowed
    expected = ESCAPED.replace(KEY, "[removed]" if action == "redact" else "*" * len(KEY))
    assert shown + stream.remaining_text == expected


def test_an_answer_is_given_again_without_a_gate() -> None:
    result = Enforcer(on_finding={"output": "reask"}).check_answer(TEXT)

    assert result.may_reask
    assert (
        not Enforcer(on_finding={"output": {"SECRET_LEAK": "reask"}}).check_answer(TEXT).may_reask
    )


@pytest.mark.parametrize(
    "value",
    [{KEY: {"a": 1}}, {"a": {KEY: []}}, {KEY: None}, [{"x": {KEY: {"b": {"c": 2}}}}]],
)
def test_names_of_members_are_changed(gate: Gate, value: Any) -> None:
    enforcer = Enforcer(gate, on_finding="redact")

    for result in (
        enforcer.check_tool_call("note", {"v": value}),
        enforcer.check_tool_result("read", value),
    ):
        assert result.allowed
        assert KEY not in str(result.apply_changes(value))
        assert "[removed]" in str(result.apply_changes(value))


def test_no_value_is_lost_when_names_become_one(gate: Gate) -> None:
    value = {KEY: 1, f"{KEY[:-1]}D": 2}
    result = Enforcer(gate, on_finding="redact").check_tool_call("note", value)

    assert result.apply_changes(value) == {"[removed]": 1, "[removed] 2": 2}


@dataclass
class Hidden:
    key: str = field(repr=False)


@pytest.mark.parametrize(
    "value",
    [
        f'{{"key": "\\u0041{KEY[1:]}"}}',
        {"body": f'{{"key": "\\u0041{KEY[1:]}"}}'},
        Hidden(KEY),
        [Hidden(KEY)],
    ],
)
def test_a_secret_that_no_change_reaches_is_refused(gate: Gate, value: Any) -> None:
    enforcer = Enforcer(gate, on_finding="redact")

    assert not enforcer.check_tool_result("read", value).allowed
    if isinstance(value, dict):
        assert not enforcer.check_tool_call("note", value).allowed


def fail(*_: Any) -> Any:
    raise RuntimeError


@pytest.mark.parametrize("has_gate", [True, False])
def test_a_tool_in_shadow_mode_is_neither_refused_nor_changed(gate: Gate, has_gate: bool) -> None:
    own_gate = gate if has_gate else None
    tools = {"trial": {"mode": "shadow"}}
    enforcer = Enforcer(own_gate, tools=tools, on_finding="redact")
    for result in (
        enforcer.check_tool_call("trial", {"a": TEXT}),
        enforcer.check_tool_result("trial", TEXT),
        Enforcer(own_gate, tools=tools, describe=fail).check_tool_call("trial", {}),
    ):
        assert result.allowed
        assert result.changes is None
    assert not Enforcer(own_gate, tools=tools, describe=fail).check_tool_call("other", {}).allowed
    assert enforcer.check_tool_call("other", {"a": TEXT}).changes is not None


@pytest.mark.parametrize("has_gate", [True, False])
def test_a_mark_of_a_guard_of_calls_lifts_nothing(gate: Gate, has_gate: bool) -> None:
    marked = Finding(
        code="CONTEXT_INJECTION",
        surface=Surface.TOOL_CALL,
        span=Span(start=0, end=1),
        evidence={"on_finding": "redact"},
    )
    guard = seeing(marked, codes=("CONTEXT_INJECTION",), surface="tool_call")
    pipeline = GuardPipeline([GuardStep(guard)])
    enforcer = Enforcer(gate if has_gate else None, pipeline=pipeline, on_finding="redact")

    assert not enforcer.check_tool_call("note", {"a": TEXT}).allowed
