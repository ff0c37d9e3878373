import json
import stat
from pathlib import Path

import pytest
from support.command_line import demur
from support.support_desk import LARGE, RISKY, SMALL, UNCLEAR

from demur.cli.start import list_agent_templates, list_templates
from demur.enforce.opening import open_enforcer, read_agent_policy
from demur.policy.loader import parse_policy
from demur.policy.policy import describe_condition


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)


def test_init_lists_the_created_files_and_the_next_steps() -> None:
    ran = demur("init", "my desk")

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("made in my desk:\n  demur.toml        the settings\n")
    assert "  demur.db          the store, empty\nnext:\n  cd 'my desk'\n" in ran.out
    assert all(Path("my desk", template.path).is_file() for template in list_templates())


def test_everything_that_it_names_next_works() -> None:
    ran = demur("init")
    steps = [line.split("  ")[1] for line in ran.out.partition("next:\n")[2].splitlines()]

    assert steps[0] == "demur decide samples/small-refund.json"
    assert [demur(*step.split()[1:]).status for step in steps] == [0, 4, 0, 0, 0]


def test_the_policy_has_nothing_to_remark_and_a_case_for_every_rule() -> None:
    demur("init")
    lint = demur("policy", "lint", "--strict", "policy.yaml")
    table = demur("policy", "test", "--require-coverage", "policy.yaml", "policy.test.yaml")

    assert (lint.status, lint.out) == (0, "no diagnostics\n")
    assert (table.status, table.out) == (0, "15 passed, 0 failed\n")


def test_the_samples_show_each_way_a_decision_can_go() -> None:
    demur("init")
    found = sorted(path.as_posix() for path in Path("samples").iterdir())

    assert found == sorted([SMALL, LARGE, RISKY, UNCLEAR])
    assert [demur("decide", name).status for name in (SMALL, LARGE, RISKY, UNCLEAR)] == [0, 4, 3, 6]


def test_the_store_is_for_its_owner_alone() -> None:
    demur("init")

    assert stat.S_IMODE(Path("demur.db").stat().st_mode) == 0o600


def test_init_overwrites_nothing_by_default() -> None:
    Path("policy.yaml").write_text("mine", encoding="utf-8")
    ran = demur("init")

    assert ran.status == 1
    assert ".: already exists: policy.yaml\n  help: choose another folder, or replace" in ran.err
    assert [path.name for path in Path().iterdir()] == ["policy.yaml"]


def test_force_writes_over_files_and_keeps_the_store() -> None:
    demur("init")
    demur("decide", SMALL)
    Path("policy.yaml").write_text("mine", encoding="utf-8")
    ran = demur("init", "--force")

    assert ran.status == 0
    assert "  demur.db          the store, unchanged\n" in ran.out
    assert "policy_id: support-desk" in Path("policy.yaml").read_text(encoding="utf-8")
    assert len(json.loads(f"[{demur('show', '--json').out}]")) == 1


def test_a_folder_that_cannot_be_created_is_an_error() -> None:
    Path("file").touch()
    ran = demur("init", "file/desk")

    assert ran.status == 1
    assert "file/desk: cannot create the folder: " in ran.err


def test_settings_that_are_named_elsewhere_are_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMUR_CONFIG", "/etc/demur.toml")
    ran = demur("init")

    assert ran.out.endswith(
        "note: DEMUR_CONFIG names /etc/demur.toml: commands use that file, not this folder\n"
    )


def test_an_agent_begins_with_a_policy_of_its_own() -> None:
    ran = demur("init", "--agent")
    table = demur("policy", "test", "--require-coverage", "policy.yaml", "policy.test.yaml")

    assert (ran.status, ran.err) == (0, "")
    assert all(Path(template.path).is_file() for template in list_agent_templates())
    assert not Path("samples").exists()
    assert (table.status, table.out) == (0, "8 passed, 0 failed\n")
    lint = demur("policy", "lint", "policy.yaml")
    assert lint.out.count("warning[") == lint.out.count("warning[default-allow]") == 1
    with open_enforcer() as enforcer:
        assert enforcer.check_prompt("Hello").allowed
    assert demur("explain", "last").status == 0


def use_agent() -> None:
    """Do what the README's example does: guard a few calls without any settings."""
    with open_enforcer() as enforcer:
        assert enforcer.check_tool_call("refund", {"amount": 900}).allowed
        assert not enforcer.check_tool_call("bash", {"command": "rm -rf /"}).allowed


@pytest.mark.parametrize("options", [[], ["--agent"], ["--force"]])
def test_init_in_a_folder_with_a_store_keeps_what_the_agent_had(options: list[str]) -> None:
    use_agent()
    ran = demur("init", *options)

    assert (ran.status, ran.err) == (0, "")
    assert "  demur.db     the store, unchanged\n" in ran.out
    assert Path("policy.yaml").read_text(encoding="utf-8") == read_agent_policy()
    assert not Path("samples").exists()
    use_agent()
    with open_enforcer() as enforcer:
        assert enforcer.check_tool_call("ls", {}).allowed
        assert enforcer.check_tool_call("send_email", {"to": "a@example.com"}).allowed
    assert len(demur("show", "--json").out.splitlines()) == 6
    assert demur("doctor").status == 0


def test_init_keeps_the_policy_that_is_there_with_a_store() -> None:
    use_agent()
    Path("policy.yaml").write_text("mine", encoding="utf-8")
    ran = demur("init", "--agent")

    assert "  policy.yaml  the policy, unchanged\n" in ran.out
    assert Path("policy.yaml").read_text(encoding="utf-8") == "mine"


def test_init_names_the_policy_of_a_store_that_another_one_decided() -> None:
    demur("init", "desk")
    demur("decide", f"desk/{SMALL}", "--config", "desk/demur.toml")
    Path("desk/demur.db").rename("demur.db")
    ran = demur("init")

    assert "note: the policy `support-desk 1.0.0` made the newest decision" in ran.out


def test_the_example_policy_adds_rules_to_the_policy_for_agents_and_nothing_else() -> None:
    example = next(t.text for t in list_agent_templates() if t.path == "policy.yaml")
    bare, full = parse_policy(read_agent_policy()), parse_policy(example)

    assert (bare.policy_id, bare.default, bare.mode) == (full.policy_id, full.default, full.mode)
    assert bare.rules == ()
    assert all("action.type" in describe_condition(rule.condition) for rule in full.rules)
