import json
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.vocabulary import Surface
from demur.emit.hosts import from_claude_code
from demur.enforce.history import FileHistories
from demur.errors import InputError, PolicyError
from demur.guards.tool_loop import CallHistory, RecordedCall
from demur.integrations.claude_code.fallback import HookExit
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.runtime import (
    HookConfig,
    HookRuntime,
    config_files,
    files_stamp,
    gate_config,
    run_hook,
    run_hook_with,
)
from demur.policy.loader import load_policy

CALL = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "session_id": "s"}
LS = json.dumps({**CALL, "tool_input": {"command": "ls"}}).encode()


class Judge:
    """Says what it was told to, and remembers that it was asked."""

    def __init__(self, says: Any) -> None:
        self.says = says
        self.asked = 0

    def judge(self, _hook: Hook, _project: str) -> dict[str, Any]:
        """Say it."""
        self.asked += 1
        if isinstance(self.says, BaseException):
            raise self.says
        said: dict[str, Any] = self.says
        return said


def code_of(ending: HookExit) -> str | None:
    if ending.status:
        return ending.stderr.split(": ")[1]
    output = json.loads(ending.stdout)
    special = output.get("hookSpecificOutput", {})
    text = special.get("permissionDecisionReason") or output.get("reason") or ""
    refusal = from_claude_code({"decision": "block", "reason": text.partition("\n")[0]})
    return None if refusal is None else str(refusal.code)


def mangled(raw: bytes, place: int, by: bytes) -> bytes:
    return raw[:place] + by + raw[place + len(by) :]


@given(st.one_of(st.binary(), st.builds(mangled, st.just(LS), st.integers(0, 90), st.binary())))
def test_nothing_passes_by_itself(raw: bytes) -> None:
    """INVARIANT: whatever the input is, no action passes that the enforcer did not allow."""
    judge = Judge(RuntimeError("not allowed"))
    ending = run_hook_with(raw, judge)
    # An event of another name is another hook's affair: no call depends on what it prints.
    told = json.loads(raw)["hook_event_name"] if judge.asked else "PreToolUse"

    if told == "PreToolUse":
        assert code_of(ending) in {"INTERNAL_ERROR", "REQUEST_INVALID"}


@pytest.mark.parametrize(
    "raw",
    [b"\xff\xfe" + LS, LS[:20], b"[" * 1_000_000, b'{"hook_event_name": null}'],
    ids=["no UTF-8", "cut", "deep", "no event"],
)
def test_input_that_cannot_be_read_blocks(raw: bytes) -> None:
    ending = run_hook_with(raw, Judge({}))

    assert (ending.status, ending.stdout, code_of(ending)) == (2, "", "REQUEST_INVALID")


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), MemoryError()])
def test_an_unexpected_error_is_denied(error: BaseException) -> None:
    ending = run_hook_with(LS, Judge(error))

    assert code_of(ending) == "INTERNAL_ERROR"
    assert type(error).__name__ in ending.stderr


def test_an_answer_that_is_no_json_is_a_no() -> None:
    assert code_of(run_hook_with(LS, Judge({"x": object()}))) == "INTERNAL_ERROR"


def test_an_allowed_hook_prints_nothing(tmp_path: Path) -> None:
    heard: list[Hook] = []

    assert run_hook(LS, HookConfig(tmp_path / "state"), "/home", heard.append) == HookExit()
    assert [hook.event for hook in heard] == ["PreToolUse"]


def test_without_settings_guards_decide_and_records_are_kept(tmp_path: Path) -> None:
    raw = json.dumps({**CALL, "tool_input": {"command": "rm -rf /srv/data"}}).encode()

    assert code_of(run_hook(raw, HookConfig(tmp_path / "state"))) == "UNAPPROVED_DESTRUCTION"
    assert (tmp_path / "state" / "demur.db").exists()


def write_hook_settings(folder: Path, guards: str) -> HookConfig:
    policy = "policy.v1\npolicy_id: p\npolicy_version: 1.0.0\ndefaults: {verdict: ALLOW}\nrules: []"
    (folder / "policy.yaml").write_text(f"schema_version: {policy}\n", encoding="utf-8")
    path = folder / "demur.toml"
    path.write_text(f'store = ""\n{guards}', encoding="utf-8")
    return HookConfig(folder / "state", path)


def test_settings_of_guards_hold_for_the_hook(tmp_path: Path) -> None:
    wipe = json.dumps({**CALL, "tool_input": {"command": "rm -rf /"}}).encode()
    drop = json.dumps({**CALL, "tool_input": {"command": "rm -rf /srv/data"}}).encode()
    shadow = write_hook_settings(tmp_path, '[guards]\nshadow = ["UNAPPROVED_DESTRUCTION"]\n')
    assert run_hook(drop, shadow) == HookExit()
    assert code_of(run_hook(wipe, shadow)) == "IRRECOVERABLE_DESTRUCTION"

    folders = write_hook_settings(tmp_path, '[guards.code_execution]\nworkspace = ["/srv"]\n')
    assert run_hook(drop, folders, "/home/me") == HookExit()
    denied = write_hook_settings(tmp_path, "[guards.tools.Bash]\ndeny = true\n")
    assert code_of(run_hook(LS, denied)) == "TOOL_NOT_ALLOWED"


def test_invalid_settings_of_guards_refuse_every_call(tmp_path: Path) -> None:
    for text in ("[guards]\nrule = []\n", '[guards]\nshadow = ["NO_SUCH"]\n'):
        assert code_of(run_hook(LS, write_hook_settings(tmp_path, text))) == "POLICY_INVALID"


def test_rule_files_belong_to_the_files_of_the_hook(tmp_path: Path) -> None:
    config = write_hook_settings(tmp_path, '[guards]\nrules = ["own.yaml"]\n')
    own = tmp_path / "own.yaml"
    own.write_text("x", encoding="utf-8")
    before = files_stamp(config)

    assert own in set(config_files(config))
    own.write_text("xyz", encoding="utf-8")
    assert files_stamp(config) != before


def test_the_folder_of_the_project_is_the_agents_own(tmp_path: Path) -> None:
    raw = json.dumps({**CALL, "tool_input": {"command": "rm -rf /srv/data"}}).encode()

    assert run_hook(raw, HookConfig(tmp_path / "state"), "/srv") == HookExit()


def test_the_agent_does_not_rewrite_what_binds_it(tmp_path: Path) -> None:
    given = {"file_path": "/home/me/app/.claude/settings.json", "content": "{}"}
    raw = json.dumps({**CALL, "tool_name": "Write", "tool_input": given}).encode()

    assert code_of(run_hook(raw, HookConfig(tmp_path / "state"))) == "PRIVILEGE_ESCALATION"


@pytest.mark.parametrize(("lines", "code"), [(100_000, None), (400_000, "REQUEST_INVALID")])
def test_a_call_is_judged_whole_or_not_at_all(tmp_path: Path, lines: int, code: str | None) -> None:
    given = {"file_path": "/home/me/app/data.csv", "content": "1,2,3\n" * lines}
    raw = json.dumps({**CALL, "tool_name": "Write", "tool_input": given}).encode()
    ending = run_hook(raw, HookConfig(tmp_path / "state"))

    assert (code_of(ending) if ending.stdout else None) == code


def test_a_rule_sees_the_whole_command(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "schema_version: policy.v1\npolicy_id: x\npolicy_version: 1.0.0\n"
        "defaults: {verdict: ALLOW}\nrules:\n  - id: R_NO\n    stage: HARD_BLOCKS\n"
        "    if: {evidence.command: {matches: 'deploy'}}\n"
        "    then: {verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK]}\n"
    )
    (tmp_path / "demur.toml").write_text('policy = "p.yaml"\n')
    command = {"command": f"echo {'x' * 10_000}; make deploy"}
    raw = json.dumps({**CALL, "tool_input": command}).encode()
    ending = run_hook(raw, HookConfig(tmp_path / "state", tmp_path / "demur.toml"))

    assert code_of(ending) == "CHARGEBACK_RISK_BLOCK"


RETURNED = {
    "hook_event_name": "PostToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "cat x"},
    "tool_response": {"stdout": "orders", "isImage": False},
}


def test_a_tool_output_is_withheld_when_the_configuration_is_broken(tmp_path: Path) -> None:
    raw = json.dumps(RETURNED).encode()
    ending = run_hook(raw, HookConfig(tmp_path / "state", tmp_path / "none.toml"))
    special = json.loads(ending.stdout)["hookSpecificOutput"]

    assert "orders" not in ending.stdout
    assert special["updatedToolOutput"]["stdout"].startswith("REFUSED: POLICY_INVALID: ")
    assert special["updatedToolOutput"]["isImage"] is False


def test_a_tool_batch_ends_the_run_when_the_configuration_is_broken(
    tmp_path: Path,
) -> None:
    raw = json.dumps({"hook_event_name": "PostToolBatch", "tool_calls": [RETURNED]}).encode()
    ending = run_hook(raw, HookConfig(tmp_path / "state", tmp_path / "none.toml"))

    assert json.loads(ending.stdout)["continue"] is False


def test_rates_are_counted_across_processes(tmp_path: Path) -> None:
    limits = "[[guards.limits]]\ncount = 2\nper_s = 3600\n"
    config = write_hook_settings(tmp_path, limits)
    prompt = {**CALL, "hook_event_name": "UserPromptSubmit", "prompt": "hello"}
    raw = json.dumps(prompt).encode()
    endings = [run_hook(raw, config) for _ in range(3)]

    assert endings[:2] == [HookExit(), HookExit()]
    assert "RATE_LIMIT" in endings[2].stdout


def test_loops_are_detected_across_processes(tmp_path: Path) -> None:
    endings = [run_hook(LS, HookConfig(tmp_path / "state")) for _ in range(3)]

    assert endings[:2] == [HookExit(), HookExit()]
    assert code_of(endings[2]) == "LOOP_DETECTED"


@pytest.mark.parametrize(
    ("config", "policy", "code"),
    [
        (None, None, "POLICY_INVALID"),
        ("policy = ", None, "POLICY_INVALID"),
        ("unknown = 1", None, "POLICY_INVALID"),
        ('policy = "p.yaml"', None, "POLICY_INVALID"),
        ('policy = "p.yaml"', "rules: 3", "POLICY_INVALID"),
        ('policy = "p.yaml"\nstore = "none/x.db"', "ok", "STORAGE_UNAVAILABLE"),
    ],
)
def test_settings_that_cannot_be_used_are_a_no(
    tmp_path: Path, config: str | None, policy: str | None, code: str
) -> None:
    path = tmp_path / "demur.toml"
    if config is not None:
        path.write_text(config)
    if policy is not None:
        head = "schema_version: policy.v1\npolicy_id: x\npolicy_version: 1.0.0\n"
        rest = "defaults: {verdict: ALLOW}\nrules: []\n" if policy == "ok" else policy
        (tmp_path / "p.yaml").write_text(head + rest)

    assert code_of(run_hook(LS, HookConfig(tmp_path / "state", path))) == code


def test_unreadable_pins_are_reported_on_events_that_cannot_be_refused(tmp_path: Path) -> None:
    terms = HookConfig(tmp_path / "state", pins=(str(tmp_path / "none.md"),))
    before = run_hook(b'{"hook_event_name": "PreCompact"}', terms)

    assert "GUARDRAIL_UNAVAILABLE" in json.loads(before.stdout)["systemMessage"]
    assert code_of(run_hook(LS, terms)) == "GUARDRAIL_UNAVAILABLE"
    assert "none.md: the rules that `--pin` names cannot be read" in before.stderr


def test_an_event_that_is_not_guarded_opens_nothing(tmp_path: Path) -> None:
    raw = b'{"hook_event_name": "Notification"}'

    assert run_hook(raw, HookConfig(tmp_path / "state")) == HookExit()
    assert not (tmp_path / "state").exists()


def test_a_transcript_that_cannot_be_read_is_no_fault_of_the_policy(tmp_path: Path) -> None:
    members = {"compact_summary": "all is well", "transcript_path": str(tmp_path / "none")}
    raw = json.dumps({"hook_event_name": "PostCompact", **members}).encode()
    ending = run_hook(raw, HookConfig(tmp_path / "state"))

    assert ending.stderr.startswith("REFUSED: REQUEST_INVALID: transcript_path: cannot be read")


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


@pytest.mark.parametrize(
    ("folder", "is_project"), [("/srv/a", True), ("/", False), (str(Path.home()), False)]
)
def test_a_whole_disk_or_home_is_no_project(
    tmp_path: Path, folder: str, *, is_project: bool
) -> None:
    target = f"{folder.rstrip('/')}/data"
    hook = Hook(
        "PreToolUse", {**CALL, "cwd": folder, "tool_input": {"command": f"rm -rf {target}"}}
    )
    with HookRuntime(HookConfig(tmp_path / "state")) as standing:
        assert (standing.judge(hook, "") == {}) == is_project


@pytest.mark.parametrize("cwd", [str(Path.home()), "", ".", None, 3])
def test_ordinary_calls_pass_wherever_the_agent_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cwd: object
) -> None:
    state = tmp_path / "state"
    calls = [
        ("TodoWrite", {"todos": [{"content": "x", "status": "pending"}]}),
        ("Task", {"description": "look", "prompt": "find it", "subagent_type": "general"}),
        ("BashOutput", {"bash_id": "bash_1"}),
        ("mcp__github__create_issue", {"owner": "me", "repo": "app", "title": "t"}),
        ("Bash", {"command": "for f in *; do echo $f; done"}),
        ("Bash", {"command": "cp * /tmp/out"}),
    ]
    with HookRuntime(HookConfig(state)) as standing:
        # The daemon works there.
        monkeypatch.chdir(state)
        for name, given in calls:
            members = {"tool_name": name, "tool_input": given, "cwd": cwd}
            assert standing.judge(Hook("PreToolUse", members), "") == {}, name


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


def test_without_settings_everything_is_allowed_that_no_guard_objects_to(tmp_path: Path) -> None:
    config = gate_config(HookConfig(tmp_path))

    assert load_policy(config.policy).policy_id == "claude-code"
    assert config.store == str(tmp_path / "demur.db")


def test_named_settings_are_gone_by(tmp_path: Path) -> None:
    path = tmp_path / "demur.toml"
    path.write_text('policy = "mine.yaml"\n')

    assert gate_config(HookConfig(tmp_path, path)).policy == str(tmp_path / "mine.yaml")


def test_settings_that_are_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        gate_config(HookConfig(tmp_path, tmp_path / "none.toml"))


def test_all_files_are_known_that_the_settings_name(tmp_path: Path) -> None:
    config = tmp_path / "demur.toml"
    config.write_text('policy = "mine.yaml"\nstore = "sqlite:///own.db"\nspool = "spool"\n')
    names = [path.name for path in config_files(HookConfig(tmp_path, config, ("/pins.md",)))]

    assert names == ["demur.toml", "mine.yaml", "pins.md", "own.db", "spool"]
    config.write_text('store = ":memory:"\n')
    assert "memory" not in str(list(config_files(HookConfig(tmp_path, config))))


@pytest.mark.parametrize("name", ["demur.toml", "policy.yaml", "own.json", "pins.md", "more.json"])
def test_the_stamp_changes_with_every_file_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("DEMUR_REGISTRY", f"{tmp_path / 'more.json'}{os.pathsep}")
    config = tmp_path / "demur.toml"
    config.write_text('registries = ["own.json"]\n')
    terms = HookConfig(tmp_path, config, (str(tmp_path / "pins.md"),))
    before = files_stamp(terms)
    with (tmp_path / name).open("a") as file:
        file.write("\n")

    assert files_stamp(terms) != before


def now(histories: FileHistories, run: str = "s") -> CallHistory:
    return histories.update(run, lambda history: history)


def test_another_process_finds_what_was_kept(tmp_path: Path) -> None:
    FileHistories(tmp_path / "a" / "b").update(
        "s", lambda history: history.add(RecordedCall(name="Read", arguments={"x": 1}, at_s=2.0))
    )

    [call] = now(FileHistories(tmp_path / "a" / "b")).calls

    assert (call.name, call.arguments, call.at_s) == ("Read", {"x": 1}, 2.0)


def test_runs_are_kept_apart_whatever_they_are_called(tmp_path: Path) -> None:
    histories = FileHistories(tmp_path)
    for run in ("../../etc/passwd", "s", "\ud800", "a" * 5000):
        histories.update(run, lambda history: history.add(RecordedCall(name="x")))

    assert all(file.parent == tmp_path for file in tmp_path.rglob("*"))
    assert len(list(tmp_path.glob("*.json"))) == 4
    assert now(histories, "other").calls == ()


def test_nobody_else_can_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    FileHistories(folder).update("s", lambda history: history)

    assert folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())


@pytest.mark.parametrize("content", [b"", b"{", b'{"calls": 3}', b"\xff", b"[" * 100_000])
def test_a_file_that_cannot_be_read_counts_as_none(tmp_path: Path, content: bytes) -> None:
    histories = FileHistories(tmp_path)
    histories.update("s", lambda history: history.add(RecordedCall(name="x")))
    [file] = tmp_path.glob("*.json")
    file.write_bytes(content)

    assert now(histories).calls == ()


def test_no_change_is_lost_if_many_come_at_once(tmp_path: Path) -> None:
    def add(name: str) -> None:
        for _ in range(10):
            FileHistories(tmp_path).update(
                "s", lambda history: history.add(RecordedCall(name=name))
            )

    threads = [threading.Thread(target=add, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(now(FileHistories(tmp_path)).calls) == 40


def test_the_oldest_runs_are_dropped(tmp_path: Path) -> None:
    histories = FileHistories(tmp_path, max_runs=3)
    for run in "abcde":
        histories.update(run, lambda history: history.add(RecordedCall(name="x")))

    assert len(list(tmp_path.glob("*.json"))) == 3
    assert now(histories, "e").calls != ()


def test_a_history_that_cannot_be_saved_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OSError, match="exists"):
        FileHistories(tmp_path / "file").update("s", lambda history: history)


def test_long_results_are_cut(tmp_path: Path) -> None:
    histories = FileHistories(tmp_path)
    histories.update("s", lambda history: history.add(RecordedCall(name="x", result="y" * 100_000)))
    [call] = now(histories).calls

    assert call.result == "y" * 8_000


@given(st.lists(st.integers(0, 3000), max_size=12))
def test_a_history_stays_small(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    """INVARIANT: a stored history never exceeds the limit, and its counts are complete."""
    folder = tmp_path_factory.mktemp("histories")
    histories = FileHistories(folder, max_bytes=4_000)
    for size in sizes:
        call = RecordedCall(name="x", arguments="y" * size)
        histories.update("s", partial(CallHistory.add, call=call))
    kept = now(histories)
    files = list(folder.glob("*.json"))

    assert all(file.stat().st_size <= 4_000 for file in files)
    assert kept.earlier.calls + len(kept.calls) == len(sizes)
