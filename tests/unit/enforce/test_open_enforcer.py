"""An enforcer in one line, with settings and without."""

from pathlib import Path

import pytest

from demur.enforce.enforcer import open_enforcer, read_agent_policy
from demur.errors import InputError
from demur.gate.config import Config
from demur.policy.loader import parse_policy
from demur.store.opening import open_store

STRICT = """
schema_version: policy.v1
policy_id: strict
policy_version: 1.0.0
rules: []
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)


def test_without_settings_guards_decide_and_records_are_kept_here() -> None:
    with open_enforcer(subject={"id": "bot", "type": "agent"}) as enforcer:
        assert enforcer.check_tool_call("search", {"query": "weather"}).allowed
        large = enforcer.check_tool_call("refund", {"amount": 900})
        assert large.needs_approval
        assert not enforcer.check_tool_call("delete_files", {}).allowed
        assert enforcer.check_tool_call(
            "delete_files", {}, accepted=["move it to the trash"]
        ).allowed
    with open_store("demur.db") as store:
        assert len(list(store.find_records())) == 4


def test_a_settings_file_here_is_gone_by() -> None:
    Path("policy.yaml").write_text(STRICT, encoding="utf-8")
    Path("demur.toml").write_text('policy = "policy.yaml"\nstore = "own.db"\n', encoding="utf-8")
    with open_enforcer() as enforcer:
        assert not enforcer.check_prompt("hello").allowed

    assert Path("own.db").exists()
    assert not Path("demur.db").exists()


def test_open_enforcer_accepts_a_config() -> None:
    Path("policy.yaml").write_text(STRICT, encoding="utf-8")
    with open_enforcer(Config(policy="policy.yaml", store="")) as enforcer:
        assert not enforcer.check_prompt("hello").allowed


def test_a_failed_open_enforcer_leaves_nothing_open() -> None:
    with pytest.raises(TypeError, match="colour"):
        open_enforcer(colour="blue")


def test_settings_that_are_not_there_are_an_error() -> None:
    with pytest.raises(InputError, match="cannot read the settings"):
        open_enforcer("nowhere.toml")


def test_the_policy_of_agents_can_be_read() -> None:
    assert parse_policy(read_agent_policy()).policy_id == "agent"
