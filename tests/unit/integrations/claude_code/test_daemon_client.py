import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.integrations.claude_code.daemon_client import (
    ask_daemon,
    can_listen,
    hold_daemon_lock,
    is_private,
    is_starting,
    relevant_environment,
    socket_path,
    start_daemon,
)
from demur.integrations.claude_code.fallback import HookExit


@pytest.fixture
def folder() -> Iterator[Path]:
    # The name of a socket is short, and folders of tests are not.
    with TemporaryDirectory() as name:
        yield Path(name)


@contextmanager
def answering(path: Path, answer: bytes, heard: list[bytes] | None = None) -> Iterator[None]:
    def serve() -> None:
        line, _ = listener.accept()
        with line:
            parts = []
            while part := line.recv(1000):
                parts.append(part)
            if heard is not None:
                heard.append(b"".join(parts))
            line.sendall(answer)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(5)
        path.unlink()


def test_the_answer_is_handed_on(folder: Path) -> None:
    heard: list[bytes] = []
    with answering(folder / "s", b'[2, "out", "err"]', heard):
        ending = ask_daemon(folder / "s", b"raw\nbytes", "/home", timeout_s=5)

    assert ending == HookExit(2, "out", "err")
    assert heard == [b'"/home"\nraw\nbytes']


ANSWER = json.dumps([0, '{"decision": "block"}', ""]).encode()


@given(
    st.one_of(
        st.binary(max_size=50),
        st.integers(0, len(ANSWER) - 1).map(lambda size: ANSWER[:size]),
        st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(
            lambda value: json.dumps(value).encode()
        ),
        st.sampled_from([b'[1, "", ""]', b'[0, 1, ""]', b'[0, "", null]', b"[" * 100_000]),
    )
)
def test_a_truncated_or_invalid_answer_counts_as_none(answer: bytes) -> None:
    """INVARIANT: a truncated or invalid answer counts as none."""
    with TemporaryDirectory() as name, answering(Path(name) / "s", answer):
        assert ask_daemon(Path(name) / "s", b"raw", "", timeout_s=5) is None


def test_nobody_there_is_no_answer(folder: Path) -> None:
    assert ask_daemon(folder / "s", b"raw", "", timeout_s=5) is None
    assert ask_daemon(folder / "none" / "s", b"raw", "", timeout_s=5) is None


def test_a_silent_daemon_times_out(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / "s"))
        listener.listen()

        assert ask_daemon(folder / "s", b"raw", "", timeout_s=0.05) is None


def test_an_answer_without_end_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demur.integrations.claude_code.daemon_client._MAX_ANSWER_BYTES", 10)
    with answering(folder / "s", b'[0, "a long answer", ""]'):
        assert ask_daemon(folder / "s", b"raw", "", timeout_s=5) is None


def test_a_socket_in_a_shared_folder_is_not_used(folder: Path) -> None:
    folder.chmod(0o755)
    with answering(folder / "s", b'[0, "", ""]'):
        assert ask_daemon(folder / "s", b"raw", "", timeout_s=5) is None
        folder.chmod(0o700)
        assert ask_daemon(folder / "s", b"raw", "", timeout_s=5) == HookExit()


def test_only_a_socket_owned_by_the_user_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("")
    assert ask_daemon(folder / "file", b"raw", "", timeout_s=5) is None
    with answering(folder / "s", b'[0, "", ""]'):
        (folder / "link").symlink_to(folder / "s")
        assert ask_daemon(folder / "link", b"raw", "", timeout_s=5) is None
        assert ask_daemon(folder / "s", b"raw", "", timeout_s=5) == HookExit()
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    assert not is_private(folder)


def test_a_socket_has_a_short_name(folder: Path) -> None:
    assert can_listen(folder / "s")
    assert not can_listen(folder / ("s" * 104))
    (folder / "link").symlink_to(folder)
    assert not can_listen(folder / "link" / "s")


def test_each_set_of_options_has_a_socket_of_its_own(tmp_path: Path) -> None:
    assert socket_path(tmp_path, ["a", "b"]) == socket_path(tmp_path, ["a", "b"])
    assert socket_path(tmp_path, ["a", "b"]) != socket_path(tmp_path, ["a b"])


PLACES = ("CLAUDE_CONFIG_DIR", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")


@pytest.mark.parametrize("name", [*PLACES, "DEMUR_REGISTRY"])
def test_each_set_of_surroundings_has_a_socket_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    paths = []
    for value in ("/a", "/b", "/a"):
        monkeypatch.setenv(name, value)
        paths.append(socket_path(tmp_path, ["a"]))
    monkeypatch.delenv(name)

    assert paths[0] == paths[2]
    assert len({*paths, socket_path(tmp_path, ["a"])}) == 3


def test_surroundings_mean_the_same_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*PLACES, "DEMUR_REGISTRY"):
        monkeypatch.setenv(name, "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "config")
    monkeypatch.setenv("DEMUR_REGISTRY", os.pathsep.join(["a.yaml", "", "/b.yaml"]))

    assert relevant_environment() == {
        "CLAUDE_CONFIG_DIR": str(tmp_path / "config"),
        "DEMUR_REGISTRY": os.pathsep.join([str(tmp_path / "a.yaml"), "", "/b.yaml"]),
    }


def test_the_daemon_is_started_with_the_environment_of_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "config")
    started: list[dict[str, str]] = []
    monkeypatch.setattr("subprocess.Popen", lambda *_, env, **__: started.append(env))
    start_daemon(["demur"], tmp_path)

    [environment] = started
    assert environment["CLAUDE_CONFIG_DIR"] == str(tmp_path / "config")
    assert environment["PATH"] == os.environ["PATH"]


def test_a_process_that_cannot_be_started_is_nobodys_problem(tmp_path: Path) -> None:
    start_daemon([str(tmp_path / "none")], tmp_path)


def test_only_one_process_may_listen(folder: Path) -> None:
    with (
        hold_daemon_lock(folder / "s.sock") as first,
        hold_daemon_lock(folder / "s.sock") as second,
    ):
        assert (first, second) == (True, False)
    with hold_daemon_lock(folder / "s.sock") as later:
        assert later


def test_a_starting_daemon_is_recognised_by_its_lock(folder: Path) -> None:
    path = folder / "s.sock"
    assert not is_starting(path)
    with hold_daemon_lock(path):
        assert is_starting(path)
        path.touch()
        assert not is_starting(path)
        path.unlink()
        folder.chmod(0o755)
        assert not is_starting(path)
        folder.chmod(0o700)
    assert not is_starting(path)


def test_probing_the_lock_does_not_prevent_a_daemon_from_starting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as looking:
        looking.enter_context(hold_daemon_lock(folder / "s.sock"))
        monkeypatch.setattr("time.sleep", lambda wait_s: looking.close() if wait_s else None)
        with hold_daemon_lock(folder / "s.sock") as first:
            assert first
