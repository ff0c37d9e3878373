import os
import signal
import threading
import time
from pathlib import Path

import httpx
import msgspec
import pytest
from support.gates import Ticking
from support.service_process import folder_of, started

from demur.errors import InputError
from demur.gate.config import load_config
from demur.service.settings import ServiceSettings, read_settings
from demur.service.supervisor import Supervisor, add_sample, run_service


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in listed.split()]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="ascii").split()[2] == "Z"


def until(happened: object, patience_s: float = 30) -> None:
    assert callable(happened)
    patience = time.monotonic() + patience_s
    while not happened():
        assert time.monotonic() < patience
        time.sleep(0.05)


def test_workers_share_a_socket_are_replaced_and_end_together(tmp_path: Path) -> None:
    with started(folder_of(tmp_path, drain_s=0.1), "--workers", 2) as process:
        until(lambda: len(children(process.process.pid)) == 2)
        first, second = children(process.process.pid)
        assert httpx.get(f"{process.url}/ready").status_code == 200
        os.kill(first, signal.SIGKILL)
        until(lambda: len(children(process.process.pid)) == 2 and gone(first))
        for _ in range(5):
            assert httpx.get(f"{process.url}/health").status_code == 200
        left = children(process.process.pid)
        assert second in left
        process.tell(signal.SIGTERM)

        assert process.wait() == 0
        assert all(map(gone, left))


def test_workers_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with started(folder_of(tmp_path, drain_s=0.0), "--workers", 2) as process:
        until(lambda: len(children(process.process.pid)) == 2)
        left = children(process.process.pid)
        process.tell(signal.SIGKILL)

        until(lambda: all(map(gone, left)))


def test_workers_that_cannot_start_end_the_supervisor(tmp_path: Path) -> None:
    settings = ServiceSettings(port=0, workers=2, drain_s=0.0)
    supervisor = Supervisor(tmp_path / "no.toml", settings)
    told: list[str] = []

    with pytest.raises(InputError, match="right after they start"):
        supervisor.run(told.append)

    assert told == []
    assert all(map(gone, supervisor.pids))


def test_a_supervisor_stopped_before_it_listens_ends(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    supervisor = Supervisor(folder / "demur.toml", ServiceSettings(port=0, workers=2, drain_s=0.0))
    timer = threading.Timer(0.15, signal.raise_signal, [signal.SIGTERM])
    timer.start()
    supervisor.run()
    timer.join()

    assert all(map(gone, supervisor.pids))


def test_a_worker_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.service.supervisor._MIN_LIFETIME_S", 0.0)
    folder = folder_of(tmp_path)
    settings = ServiceSettings(port=0, workers=1, drain_s=0.0, grace_s=0.3)
    supervisor = Supervisor(folder / "demur.toml", settings)

    def stop(_: str) -> None:
        [pid] = supervisor.pids
        os.kill(pid, signal.SIGSTOP)
        supervisor.stop()

    supervisor.run(stop)

    assert all(map(gone, supervisor.pids))


def test_a_worker_imports_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path)
    (tmp_path / "msgspec.py").write_text("raise SystemExit", encoding="ascii")
    monkeypatch.chdir(tmp_path)
    settings = ServiceSettings(port=0, workers=1, drain_s=0.0)
    supervisor = Supervisor(folder / "demur.toml", settings)

    addresses: list[str] = []

    def stop(address: str) -> None:
        addresses.append(address)
        supervisor.stop()

    supervisor.run(stop)

    assert len(addresses) == 1


def test_there_is_one_worker_where_sockets_cannot_be_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(InputError, match="one worker"):
        Supervisor(tmp_path, ServiceSettings())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_is_served_until_a_stop_signal(tmp_path: Path, workers: int) -> None:
    path = folder_of(tmp_path, drain_s=0.0) / "demur.toml"
    config = load_config(path)
    settings = read_settings(config.service, port=0, workers=workers)
    seen: list[int] = []

    def started(url: str) -> None:
        if workers > 1:
            seen.append(httpx.get(f"{url}/health", timeout=30).status_code)
        signal.raise_signal(signal.SIGTERM)

    run_service(path, config, settings, on_started=started)

    assert seen == [200] * (workers > 1)


def test_invalid_settings_are_reported_before_workers_start(tmp_path: Path) -> None:
    path = folder_of(tmp_path) / "demur.toml"
    config = load_config(path)
    settings = read_settings(config.service, host="0.0.0.0", workers=2, port=0)  # noqa: S104 - the case

    with pytest.raises(InputError, match="no valid API key"):
        run_service(path, config, settings)


def test_a_sample_day_is_stored_once(tmp_path: Path) -> None:
    config = load_config(folder_of(tmp_path) / "demur.toml")

    first, again = add_sample(config, Ticking()), add_sample(config, Ticking())

    assert first > 100
    assert again == 0
    assert add_sample(msgspec.structs.replace(config, store="")) == 0
