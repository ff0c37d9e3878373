from pathlib import Path

import pytest

from demur.codes.vocabulary import Surface
from demur.errors import PolicyError
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.standing import HookRuntime
from demur.integrations.claude_code.terms import HookConfig

POLICY = "schema_version: policy.v1\npolicy_id: x\npolicy_version: 1.0.0\n"


def test_one_gate_serves_many_projects(tmp_path: Path) -> None:
    command = {"command": "rm -rf /srv/a/data"}
    hook = Hook("PreToolUse", {"tool_name": "Bash", "tool_input": command})
    with HookRuntime(HookConfig(tmp_path / "state")) as standing:
        assert standing.judge(hook, "/srv/a") == {}
        assert standing.judge(hook, "/srv/b") != {}
        for number in range(40):
            standing.judge(Hook("Notification", {}), f"/srv/{number}")
        assert standing.judge(hook, "/srv/a") == {}


def test_one_surface_is_guarded_by_its_own_guards_alone(tmp_path: Path) -> None:
    members = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": "fine"}
    with HookRuntime(HookConfig(tmp_path / "state"), (Surface.TOOL_RESULT,)) as standing:
        for _ in range(2):
            assert standing.judge(Hook("PostToolUse", members), "/srv/a") == {}


def test_a_rehearsal_leaves_nothing_behind(tmp_path: Path) -> None:
    with HookRuntime(HookConfig(tmp_path / "state")) as standing:
        standing.warm_up()
        store = standing._gate.store

        assert store is not None
        assert list(store.find_records()) == []
        assert not (tmp_path / "state" / "sessions").exists()


def test_it_is_fresh_until_a_file_changes(tmp_path: Path) -> None:
    policy, config, pins = (tmp_path / name for name in ("p.yaml", "demur.toml", "pins.md"))
    policy.write_text(f"{POLICY}defaults: {{verdict: ALLOW}}\nrules: []\n")
    config.write_text('policy = "p.yaml"\n')
    pins.write_text("ask first")
    with HookRuntime(HookConfig(tmp_path / "state", config, (str(pins),))) as standing:
        assert standing.is_fresh
        pins.unlink()
        assert not standing.is_fresh
        pins.write_text("ask twice")
        assert not standing.is_fresh
        config.write_text("policy = ")
        assert not standing.is_fresh


def test_a_policy_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(f"{POLICY}rules: 3\n")
    config = tmp_path / "demur.toml"
    config.write_text('policy = "p.yaml"\n')

    with pytest.raises(PolicyError):
        HookRuntime(HookConfig(tmp_path / "state", config))


def test_state_is_for_its_owner_alone(tmp_path: Path) -> None:
    with HookRuntime(HookConfig(tmp_path / "state")):
        assert (tmp_path / "state").stat().st_mode & 0o077 == 0
