import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from demur.integrations.claude_code.daemon import serve_daemon
from demur.integrations.claude_code.daemon_client import ask_daemon
from demur.integrations.claude_code.fallback import HookExit
from demur.integrations.claude_code.hook import Hook

RAW = b'{"hook_event_name": "PreToolUse"}'


class Judge:
    def __init__(self) -> None:
        self.is_fresh = True

    def judge(self, hook: Hook, project: str) -> dict[str, Any]:
        """Say what was asked."""
        return {"event": hook.event, "project": project}


class Serving(threading.Thread):
    def __init__(self, path: Path, judge: Judge, idle_s: float = 60) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.judge = judge
        self.idle_s = idle_s

    def run(self) -> None:
        """Serve."""
        serve_daemon(self.path, self.judge, idle_s=self.idle_s)

    def begin(self) -> None:
        """Start, and wait until it listens."""
        self.start()
        end = time.monotonic() + 5
        while not self.path.exists() and time.monotonic() < end:
            time.sleep(0.01)

    def ask(self, raw: bytes = RAW) -> HookExit | None:
        """Ask it."""
        return ask_daemon(self.path, raw, "/home", timeout_s=5)


@pytest.fixture
def serving() -> Iterator[Serving]:
    with TemporaryDirectory() as name:
        thread = Serving(Path(name) / "s.sock", Judge())
        thread.begin()
        yield thread
        thread.path.unlink(missing_ok=True)
        thread.join(5)
        assert not thread.is_alive()


def test_hooks_are_answered_one_after_the_other(serving: Serving) -> None:
    for _ in range(3):
        assert serving.ask() == HookExit(stdout='{"event": "PreToolUse", "project": "/home"}\n')


def test_an_unreadable_request_is_denied(serving: Serving) -> None:
    ending = serving.ask(b"{")

    assert ending is not None
    assert ending.status == 2


def test_it_leaves_once_a_file_has_changed(serving: Serving) -> None:
    serving.judge.is_fresh = False

    assert serving.ask() is None
    serving.join(5)
    assert not serving.is_alive()
    assert not serving.path.exists()


def test_it_leaves_when_nobody_asks() -> None:
    with TemporaryDirectory() as name:
        thread = Serving(Path(name) / "s.sock", Judge(), idle_s=0.1)
        thread.start()
        thread.join(5)

        assert not thread.is_alive()
        assert not thread.path.exists()


def test_it_leaves_when_another_listens_in_its_place(serving: Serving) -> None:
    serving.path.rename(serving.path.with_suffix(".old"))
    serving.path.write_text("another's")
    serving.join(5)

    assert not serving.is_alive()
    assert serving.path.read_text() == "another's"


def test_a_caller_that_sends_too_much_gets_no_answer(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.integrations.claude_code.daemon._MAX_REQUEST_BYTES", 10)

    assert serving.ask() is None
