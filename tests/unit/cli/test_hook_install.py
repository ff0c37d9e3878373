import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_line import demur

LOCAL = ".claude/settings.local.json"
SHARED = ".claude/settings.json"
COMMENTED = '{\n  // mine\n  "model": "x"\n}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return tmp_path


def install(*words: object, stdin: str = "") -> Any:
    return demur("hook", "install", "claude-code", *words, stdin=stdin)


def settings(path: Path | str = ".claude/settings.local.json") -> dict[str, Any]:
    read: dict[str, Any] = json.loads(Path(path).read_text())
    return read


def commands(path: Path | str = ".claude/settings.local.json") -> set[str]:
    groups = [group for groups in settings(path)["hooks"].values() for group in groups]
    return {hook["command"] for group in groups for hook in group["hooks"]}


def without_end(command: str) -> str:
    return command.partition(" || ")[0]


def test_without_anybody_to_ask_the_change_is_only_shown() -> None:
    ran = install()

    assert ran.status == 4
    assert '+    "PreToolUse": [' in ran.out
    assert not Path(".claude").exists()


def test_a_yes_changes_it_and_a_second_one_finds_nothing_to_do() -> None:
    assert install("--yes").status == 0
    first = Path(".claude/settings.local.json").read_text()

    assert install("--yes").out.startswith("nothing to do")
    assert Path(".claude/settings.local.json").read_text() == first


def test_removing_leaves_what_others_wrote() -> None:
    path = Path(".claude/settings.local.json")
    path.parent.mkdir()
    text = '{\n    "model": "é",\n    "hooks": {"Stop": [{"hooks": []}]}\n}\n'
    path.write_text(text)
    install("--yes")
    ran = install("--remove", "--yes")

    assert ran.status == 0
    assert settings() == json.loads(text)
    assert install("--remove", "--yes").out.startswith("nothing to do")
    assert Path(".claude/settings.local.json.bak").read_text() == text


@pytest.mark.parametrize(("answer", "status"), [(b"Yes\n", 0), (b"\n", 3)])
def test_install_prompts_for_confirmation(answer: bytes, status: int) -> None:
    person, terminal = pty.openpty()
    words = [sys.executable, "-P", "-m", "demur", "hook", "install", "claude-code"]
    try:
        os.write(person, answer)
        ran = subprocess.run(words, stdin=terminal, capture_output=True, check=False)
    finally:
        os.close(person)
        os.close(terminal)

    assert ran.returncode == status
    assert Path(".claude/settings.local.json").exists() is (status == 0)


def test_settings_with_comments_are_refused_and_left_alone() -> None:
    path = Path("settings.json")
    path.write_text(COMMENTED)
    ran = install("--settings", path, "--yes")

    assert ran.status == 1
    assert "settings.json:2:3: not JSON" in ran.err
    assert path.read_text() == COMMENTED


def test_each_place_has_its_option(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("--user", "--yes")
    install("--project", "--yes")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "elsewhere"))
    install("--user", "--yes")

    assert (home / "home/.claude/settings.json").exists()
    assert (home / SHARED).exists()
    assert not (home / LOCAL).exists()
    assert (home / "elsewhere/settings.json").exists()
    assert install("--user", "--project").status == 2


def test_the_command_is_this_interpreter_isolated_from_its_environment() -> None:
    install("--yes")
    line = f"{shlex.quote(sys.executable)} -I -m demur hook claude-code --warm"
    assert set(map(without_end, commands())) == {line}
    assert f"{line} || exit 2" in commands()

    install("--yes", "--no-warm", "--ask", "--no-halt")
    line = f"{shlex.quote(sys.executable)} -I -m demur hook claude-code --ask --no-halt"
    assert set(map(without_end, commands())) == {line}


def test_a_shared_file_names_no_path_of_this_machine(home: Path) -> None:
    (home / "rules.md").write_text("")
    install("--project", "--yes", "--no-warm", "--pin", "rules.md")

    assert not Path(LOCAL).exists()
    assert str(home) not in Path(SHARED).read_text()
    assert sys.executable not in Path(SHARED).read_text()
    [line] = set(map(without_end, commands(SHARED)))
    assert line.endswith('demur hook claude-code --pin "$CLAUDE_PROJECT_DIR"/rules.md')
    install("--project", "--yes", "--remove")
    assert settings(SHARED) == {}


def test_a_shared_hook_says_what_to_install_where_demur_is_missing() -> None:
    install("--project", "--yes", "--no-warm")
    [hook] = settings(SHARED)["hooks"]["PreToolUse"][0]["hooks"]
    ran = subprocess.run(
        ["/bin/sh", "-c", hook["command"]],
        capture_output=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere"},
    )

    assert ran.returncode == 2
    assert b"pip install demur" in ran.stderr


def test_the_installed_hook_obeys_neither_the_environment_nor_the_project(home: Path) -> None:
    """The real command line, in a project that tries to replace demur and its settings."""
    project = home / "project"
    for name in ("demur", "sitecustomize.py", "json"):
        if name.endswith(".py"):
            (project / name).write_text("raise SystemExit(0)")
        else:
            (project / name).mkdir(parents=True)
            (project / name / "__init__.py").write_text("raise SystemExit(0)")
    (project / "demur.toml").write_text("[guards.tools.Bash]\nloops = false\n")
    install("--yes", "--no-warm")
    [hook] = settings()["hooks"]["PreToolUse"][0]["hooks"]
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash"}
    event["tool_input"] = {"command": "rm -rf /"}  # type: ignore[assignment]
    ran = subprocess.run(
        ["/bin/sh", "-c", hook["command"]],
        input=json.dumps(event).encode(),
        capture_output=True,
        check=False,
        cwd=project,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "PYTHONPATH": str(project),
            "PYTHONHOME": "",
            "DEMUR_CONFIG": str(project / "none.toml"),
        },
    )

    answer = json.loads(ran.stdout)["hookSpecificOutput"]
    assert answer["permissionDecision"] == "deny"
    assert "IRRECOVERABLE_DESTRUCTION" in answer["permissionDecisionReason"]


@pytest.mark.parametrize("ignored", ["", ".claude/settings.local.json\n"])
def test_a_local_file_that_git_would_share_is_reported(home: Path, ignored: str) -> None:
    note = f"git does not ignore {LOCAL}"
    assert note not in install("--yes").err
    git = shutil.which("git") or pytest.skip("needs git")
    subprocess.run([git, "init", "--quiet"], check=True)
    (home / ".gitignore").write_text(ignored)

    assert (note in install("--yes", "--ask").err) is not bool(ignored)
    assert note not in install("--yes", "--project").err
    assert note not in install("--yes", "--remove").err


def test_files_of_the_project_are_named_for_every_machine(home: Path) -> None:
    (home / "demur.toml").write_text("")
    (home / "home").mkdir()
    (home / "rules.md").write_text("")
    install("--project", "--yes", "--no-warm", "--config", "demur.toml", "--pin", "rules.md")
    [line] = set(map(without_end, commands(SHARED)))
    assert '--config "$CLAUDE_PROJECT_DIR"/demur.toml --pin "$CLAUDE_PROJECT_DIR"/rules.md' in line

    for place in ("--local", "--user"):
        install(place, "--yes", "--config", "demur.toml")
        path = LOCAL if place == "--local" else home / "home/.claude/settings.json"
        assert f"--config {home.resolve()}/demur.toml" in min(commands(path))


def test_a_demur_that_the_agent_can_write_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _path, _mode: True)
    assert "an agent that runs as you can write" in install("--yes").err
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    assert install("--yes", "--ask").err == ""


def test_an_interpreter_without_demur_of_its_own_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(other))
    ran = install("--yes")

    assert ran.status == 1
    assert "only through PYTHONPATH" in ran.err
    assert not Path(LOCAL).exists()


def test_a_file_that_is_not_there_is_an_error() -> None:
    assert install("--yes", "--config", "none.toml").status == 1


def test_a_missing_program_blocks_hooks_that_run_before_an_action() -> None:
    install("--yes")
    [hook] = settings()["hooks"]["PreToolUse"][0]["hooks"]
    command = hook["command"].replace(sys.executable, "/none/python")
    ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)

    assert ran.returncode == 2
