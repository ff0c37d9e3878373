"""Models of the settings over HTTP: their flags refuse, and their scores stay in the record."""

from typing import Any

from support.gates import CORE
from support.model_endpoint import RawReply, llama_guard_reply, model_endpoint
from support.service_app import add_key, open_service_over

from demur.gate.gate import Gate
from demur.gate.guard_settings import GuardSettings
from demur.policy.loader import parse_policy
from demur.scorers.settings import ModelSettings, check_model_settings
from demur.store.opening import open_store

POLICY = """
schema_version: policy.v1
policy_id: chat
policy_version: 1.0.0
rules:
  - id: R_CHAT
    stage: ALLOW_PATHS
    if: {action_type: generate}
    then: {verdict: ALLOW}
"""


def open_chat(settings: GuardSettings) -> Any:
    return open_service_over(Gate(parse_policy(POLICY), open_store(":memory:")), guards=settings)


def guards(url: str, **more: Any) -> GuardSettings:
    fields = {"kind": "llama_guard", "url": url, "retries": 0, **more}
    settings = ModelSettings(**fields)
    return GuardSettings(models={"llama_guard": check_model_settings("m", settings, CORE)})


def test_a_model_of_the_settings_refuses_over_http() -> None:
    with (
        model_endpoint(llama_guard_reply) as server,
        open_chat(guards(server.url)) as call,
    ):
        key = add_key(call.store, "acme")
        assert server.requests == []
        refused = call("POST", "/v1/enforce/prompt", {"text": "a quux please"}, key=key).json()
        assert (refused["allowed"], refused["envelope"]["code"]) == (False, "CONTENT_VIOLENCE")
        assert "signals" not in refused
        stored = call.store.get(refused["decision_id"])
        assert stored is not None
        assert stored.personal is not None
        assert stored.personal.risk_signals["guards"]["llama_guard"]["S1"] == 1.0
        found = call("POST", "/v1/guard/input", {"event": "a quux please"}, key=key).json()
        assert [one["code"] for one in found["findings"]] == ["CONTENT_VIOLENCE"]


def test_a_call_with_settings_of_its_own_spends_the_same_budget() -> None:
    settings: dict[str, Any] = {"calls_per_minute": 1, "cache_size": 0}
    with (
        model_endpoint(llama_guard_reply) as server,
        open_chat(guards(server.url, **settings)) as call,
    ):
        key = add_key(call.store, "acme")
        body = {"event": "good morning", "config": {"personal": "block"}}
        codes = [
            [
                one["code"]
                for one in call("POST", "/v1/guard/input", body, key=key).json()["findings"]
            ]
            for _ in range(2)
        ]
    assert codes == [[], ["GUARDRAIL_UNAVAILABLE"]]


def test_a_model_that_fails_refuses_over_http() -> None:
    with (
        model_endpoint(RawReply(500)) as server,
        open_chat(guards(server.url)) as call,
    ):
        key = add_key(call.store, "acme")
        refused = call("POST", "/v1/enforce/prompt", {"text": "hello"}, key=key).json()
    assert (refused["allowed"], refused["envelope"]["code"]) == (False, "GUARDRAIL_UNAVAILABLE")
