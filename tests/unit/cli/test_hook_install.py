import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_line import demur

COMMENTED = '{\n  // mine\n  "model": "x"\n}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    return tmp_path


def install(*words: object, stdin: str = "") -> Any:
    return demur("hook", "install", "claude-code", *words, stdin=stdin)


def settings(path: Path | str = ".claude/settings.json") -> dict[str, Any]:
    read: dict[str, Any] = json.loads(Path(path).read_text())
    return read


def commands(path: Path | str = ".claude/settings.json") -> set[str]:
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
    first = Path(".claude/settings.json").read_text()

    assert install("--yes").out.startswith("nothing to do")
    assert Path(".claude/settings.json").read_text() == first


def test_removing_leaves_what_others_wrote() -> None:
    path = Path(".claude/settings.json")
    path.parent.mkdir()
    text = '{\n    "model": "é",\n    "hooks": {"Stop": [{"hooks": []}]}\n}\n'
    path.write_text(text)
    install("--yes")
    ran = install("--remove", "--yes")

    assert ran.status == 0
    assert settings() == json.loads(text)
    assert install("--remove", "--yes").out.startswith("nothing to do")
    assert Path(".claude/settings.json.bak").read_text() == text


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
    assert Path(".claude/settings.json").exists() is (status == 0)


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
    assert (home / ".claude/settings.json").exists()
    assert (home / "elsewhere/settings.json").exists()
    assert install("--user", "--project").status == 2


def test_the_command_is_the_interpreter_unless_demur_is_on_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install("--yes")
    line = f"{shlex.quote(sys.executable)} -P -m demur hook claude-code --warm"
    assert set(map(without_end, commands())) == {line}
    assert f"{line} || exit 2" in commands()

    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    install("--yes", "--no-warm", "--ask", "--no-halt")
    line = "demur hook claude-code --ask --no-halt"
    assert set(map(without_end, commands())) == {line}
    assert f"{line} || exit 2" in commands()


def test_files_of_the_project_are_named_for_every_machine(home: Path) -> None:
    (home / "demur.toml").write_text("")
    (home / "home").mkdir()
    (home / "rules.md").write_text("")
    install("--yes", "--no-warm", "--config", "demur.toml", "--pin", "rules.md")
    [line] = set(map(without_end, commands()))
    assert '--config "$CLAUDE_PROJECT_DIR"/demur.toml --pin "$CLAUDE_PROJECT_DIR"/rules.md' in line

    install("--user", "--yes", "--config", "demur.toml")
    assert f"--config {home.resolve()}/demur.toml" in min(
        commands(home / "home/.claude/settings.json")
    )


def test_a_file_that_is_not_there_is_an_error() -> None:
    assert install("--yes", "--config", "none.toml").status == 1


def test_a_missing_program_blocks_hooks_that_run_before_an_action(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/none/python")
    install("--yes")
    [hook] = settings()["hooks"]["PreToolUse"][0]["hooks"]
    ran = subprocess.run(["/bin/sh", "-c", hook["command"]], capture_output=True, check=False)

    assert ran.returncode == 2
