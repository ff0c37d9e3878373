import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from adapters.claude_api import CLI, ClaudeApi, ask, claude_api, say
from adapters.stage_claude_agent import refusal_in
from adapters.stage_claude_code import ClaudeCodeStage
from commandline import demur

from demur.store.opening import open_store
from demur.testing.conformance.play import play
from demur.testing.conformance.scene import Scene
from demur.testing.conformance.scenes import SCENES

pytestmark = pytest.mark.adapters


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_scene_ends_as_everywhere_else(scene: Scene) -> None:
    assert play(ClaudeCodeStage(), scene).problems == ()


class Session:
    """A session of the CLI in a folder whose settings `demur hook install` has changed."""

    def __init__(self, folder: Path, api: ClaudeApi, *options: object) -> None:
        self.folder = folder
        self._settings = folder / "settings.json"
        self._environment = {
            **os.environ,
            **api.environment(folder),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        words = ("hook", "install", "claude-code", "--settings", self._settings, "--no-warm")
        assert demur(*words, "--yes", *options).status == 0

    def ask(self, *words: str) -> dict[str, Any]:
        """Return the CLI's own account of one prompt."""
        command = [str(CLI), "-p", *words, "--settings", str(self._settings)]
        ran = subprocess.run(
            [*command, "--allowedTools", "Bash", "--output-format", "json"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        account: dict[str, Any] = json.loads(ran.stdout)
        return account


@pytest.mark.slow
def test_what_an_installed_hook_denies_does_not_run_and_the_model_hears_why(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere" / "kept.txt"
    kept.parent.mkdir()
    kept.write_text("kept")
    project = tmp_path / "project"
    project.mkdir()
    turns = [ask(("Bash", {"command": f"rm -rf {kept.parent}/../elsewhere ~/.ssh"})), say("I see.")]
    with claude_api(turns) as api:
        Session(project, api).ask("Tidy up.")
        refusal = refusal_in(api.said_after(1))

    assert refusal is not None
    assert refusal.code == "DESTRUCTIVE_ACTION"
    assert kept.exists()
    store = open_store(str(project / "state" / "demur" / "claude-code" / "demur.db"))
    try:
        assert ["DESTRUCTIVE_ACTION"] in [list(record.reason_codes) for record in store.find()]
    finally:
        store.close()


@pytest.mark.slow
def test_a_hook_that_is_gone_lets_nothing_run(tmp_path: Path) -> None:
    with claude_api([ask(("Bash", {"command": f"touch {tmp_path}/made"}))]) as api:
        session = Session(tmp_path, api)
        settings = tmp_path / "settings.json"
        text = settings.read_text()
        command = json.loads(text)["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
        hooks = json.loads(text)["hooks"]
        del hooks["UserPromptSubmit"]
        gone = command.replace(command.split()[0], "/none/python")
        settings.write_text(json.dumps({"hooks": hooks}).replace(command, gone))
        session.ask("Make it.")

    assert not (tmp_path / "made").exists()


@pytest.mark.slow
def test_pinned_rules_outlive_a_compaction(tmp_path: Path) -> None:
    rules = tmp_path / "rules.md"
    rules.write_text("Never deploy on a Friday.")
    with claude_api([say("Hello."), say("We said hello.")]) as api:
        session = Session(tmp_path, api, "--pin", rules)
        name = session.ask("Hello.")["session_id"]
        session.ask("/compact", "--resume", name)
        summarised = len(api.heard)
        session.ask("Go on.", "--resume", name)
        before = json.dumps(api.heard[1:summarised])
        after = json.dumps(api.heard[summarised:])

    assert "Keep these rules in the summary, word for word:" in before
    assert "These rules hold as they did before" in after
    assert after.count("Never deploy on a Friday.") >= 1
