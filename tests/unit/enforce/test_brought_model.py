"""Four lines of settings turn on Llama Guard: categories are codes, and a replay asks nobody."""

import asyncio
import json
from pathlib import Path

import pytest
from support.command_line import demur
from support.model_endpoint import RawReply, llama_guard_reply, model_endpoint

from demur.enforce.context import CallContext
from demur.enforce.opening import open_enforcer

FOUR_LINES = """
[guards.models.llama_guard]
kind = "llama_guard"
url = "{url}/v1"
model = "meta-llama/Llama-Guard-3-8B"
"""
POLICY = """
schema_version: policy.v1
policy_id: chat
policy_version: 1.0.0
rules:
  - id: R_HATE
    stage: HARD_BLOCKS
    if: {action_type: generate, signals.guards.llama_guard.S10: {gt: 0.8}}
    then: {verdict: DENY, reason_codes: [CONTENT_HATE]}
  - id: R_CHAT
    stage: ALLOW_PATHS
    if: {action_type: generate}
    then: {verdict: ALLOW}
"""
HARM = "please quux the door"


def set_up(folder: Path, url: str, more: str = "") -> Path:
    settings = folder / "demur.toml"
    lines = FOUR_LINES.format(url=url) + more
    settings.write_text(f'policy = "policy.yaml"\n{lines}', encoding="utf-8")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    return settings


def test_categories_are_codes_and_a_replay_needs_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with model_endpoint(llama_guard_reply) as server:
        settings = set_up(tmp_path, server.url)
        with open_enforcer(settings) as enforcer:
            assert enforcer.check_prompt("good morning").allowed
            refused = enforcer.check_prompt(HARM)
        assert {one.path for one in server.requests} == {"/v1/chat/completions"}
    assert [one.code for one in refused.findings] == ["CONTENT_VIOLENCE"]
    assert refused.line.startswith("REFUSED: CONTENT_VIOLENCE: ")
    assert refused.record is not None
    shown = json.loads(demur("export", "last").out)
    assert shown["determinism"]["models"]["llama_guard"]["model"] == "meta-llama/Llama-Guard-3-8B"
    assert shown["determinism"]["models"]["llama_guard"]["digest"].startswith("sha256:")
    assert shown["risk_signals"]["guards"]["llama_guard"]["S1"] == 1.0
    assert demur("export", "last", "--pack", "--out", "pack.zip").status == 0
    replayed = demur("replay", "pack.zip")
    assert (replayed.status, "same decision" in replayed.out) == (0, True)


def test_a_threshold_of_the_policy_reads_the_score(tmp_path: Path) -> None:
    with model_endpoint(llama_guard_reply) as server:
        settings = set_up(tmp_path, server.url, 'action = "warn"\n')
        with open_enforcer(settings, store=None) as enforcer:
            warned = enforcer.check_prompt(HARM)
            assert (warned.allowed, str(warned.findings[0].action)) == (True, "warn")
            refused = enforcer.check_answer("they are plugh", prompt="who are they?")
    assert not refused.allowed
    assert refused.record is not None
    assert refused.record.matched_rules[0].rule_id == "R_HATE"
    assert [one["role"] for one in server.requests[-1].body["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("reply", [RawReply(500), RawReply(-1), RawReply(200, b"<html>")])
def test_a_model_that_fails_abstains(tmp_path: Path, reply: RawReply) -> None:
    with model_endpoint(reply) as server:
        settings = set_up(tmp_path, server.url, "retries = 0\n")
        with open_enforcer(settings, store=None) as enforcer:
            results = [
                enforcer.check_prompt("good morning"),
                asyncio.run(enforcer.acheck_prompt("good evening")),
            ]
    for result in results:
        assert result.record is not None
        assert (result.record.verdict, result.unjudged) == ("ABSTAIN", True)
        assert result.record.leading_code == "GUARDRAIL_UNAVAILABLE"


def test_the_operator_may_let_a_rule_say_what_a_failure_means(tmp_path: Path) -> None:
    with model_endpoint(RawReply(500)) as server:
        settings = set_up(tmp_path, server.url, 'retries = 0\non_failure = "signal_missing"\n')
        with open_enforcer(settings, store=None) as enforcer:
            result = enforcer.check_prompt("good morning")
    assert result.record is not None
    assert result.record.missing == ("signals.guards.llama_guard.S10",)
    assert result.record.personal is not None
    signals = result.record.personal.risk_signals["guards"]["llama_guard"]
    assert signals == {"failure": "unreachable"}


def test_a_caller_cannot_bring_the_scores(tmp_path: Path) -> None:
    forged = {"guards": {"llama_guard": {"S10": 0.0}}}
    with model_endpoint(llama_guard_reply) as server:
        settings = set_up(tmp_path, server.url)
        with open_enforcer(settings, store=None) as enforcer:
            context = CallContext(signals=forged)
            assert not enforcer.check_prompt("they are plugh", context).allowed


def test_the_command_line_asks_the_model_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with model_endpoint(llama_guard_reply) as server:
        set_up(tmp_path, server.url)
        found = demur("guard", "input", "--json", stdin=HARM)
    assert "CONTENT_VIOLENCE" in found.out
