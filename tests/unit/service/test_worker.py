import asyncio
import os
import socket
import threading
from itertools import count
from pathlib import Path

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from support.gates import KEY, RING, gate_over
from support.service_app import add_key
from support.service_process import folder_of

from demur.audit.anchors import append_anchor, read_anchor_file
from demur.enforce.history import make_run_key
from demur.errors import DemurError, InputError
from demur.gate.config import load_config, open_configured_store
from demur.gate.guard_settings import GuardSettings, ToolSettings
from demur.service import worker
from demur.service.server import bind_listener
from demur.service.settings import ServiceSettings, read_settings
from demur.service.worker import RandomBuffer
from demur.store.opening import open_store

ANYWHERE = ServiceSettings(host="0.0.0.0")  # noqa: S104 - what needs a key


def test_the_settings_file_makes_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMUR_CONFIG", str(folder_of(tmp_path, rate=7) / "demur.toml"))
    app = worker.app()
    service = app.state.service
    service.close()

    assert service.settings.rate == 7
    assert service.metrics is not None
    assert not service.sample


def test_a_service_anchors_its_chains_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, anchor="anchors.jsonl", anchor_key="key.json")
    (folder / "key.json").write_bytes(msgspec.json.encode(KEY))
    written = threading.Event()
    append = append_anchor

    def note(path: Path, line: bytes) -> None:
        append(path, line)
        written.set()

    monkeypatch.setattr("demur.observe.anchoring.append_anchor", note)
    config = load_config(folder / "demur.toml")
    app = worker.make_app(config, read_settings(config.service))
    try:
        assert written.wait(60)
    finally:
        app.state.service.close()

    assert read_anchor_file(folder / "anchors.jsonl", RING)[0].signed_by == KEY.holder
    (folder / "key.json").unlink()
    with pytest.raises(DemurError, match=r"key\.json"):
        worker.make_app(config, read_settings(config.service))


def test_a_service_starts_while_its_store_is_down(tmp_path: Path) -> None:
    config = load_config(folder_of(tmp_path) / "demur.toml")
    app = worker.make_app(
        msgspec.structs.replace(config, store=str(tmp_path / "later" / "d.db")), ServiceSettings()
    )
    body = {"request": {"action": {"type": "refund"}}}

    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.post("/v1/decide", json=body)

    answered = asyncio.run(call())
    app.state.service.close()

    assert answered.status_code == 503
    assert answered.json()["code"] == "STORAGE_UNAVAILABLE"


def poll(apps: list[Starlette], run: str) -> list[bool]:
    """Return whether calls are allowed that go to workers in turn."""
    body = {"name": "charge", "arguments": {"id": 1}, "run": run}

    async def call_all() -> list[bool]:
        allowed = []
        for number in range(6):
            transport = httpx.ASGITransport(app=apps[number % len(apps)])
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                answered = await http.post("/v1/enforce/tool_call", json=body)
            allowed.append("LOOP_DETECTED" not in answered.text)
        return allowed

    return asyncio.run(call_all())


def test_workers_share_the_histories_of_runs_and_the_settings_of_guards(tmp_path: Path) -> None:
    config = load_config(folder_of(tmp_path) / "demur.toml")
    guards = GuardSettings(tools={"scroll": ToolSettings(loops=False)})
    config = msgspec.structs.replace(config, guards=guards)
    apps = [worker.make_app(config, ServiceSettings(workers=3)) for _ in range(3)]
    try:
        assert False in poll(apps, "r")
        assert [app.state.service.guards for app in apps] == [guards] * 3
    finally:
        for app in apps:
            app.state.service.close()
    [folder] = tmp_path.glob("**/*.runs")
    assert folder.stat().st_mode & 0o077 == 0


def test_histories_of_a_store_that_is_no_file_lie_in_the_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for store in ("postgresql://db/one", "postgresql://db/two"):
        config = msgspec.structs.replace(
            load_config(folder_of(tmp_path) / "demur.toml"), store=store
        )
        histories = worker._open_histories(config)
        histories.update(make_run_key("http", "acme", None, "r"), lambda history: history)

    assert len(list((tmp_path / "demur" / "service").glob("*.runs/*/*.json"))) == 2


def test_without_settings_there_is_no_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)

    with pytest.raises(InputError, match="no settings"):
        worker.app()


def test_others_can_reach_it_only_if_there_is_a_key(tmp_path: Path) -> None:
    config = load_config(folder_of(tmp_path) / "demur.toml")
    with pytest.raises(InputError, match="there is no valid API key") as caught:
        worker.make_app(config, ANYWHERE)
    assert "demur keys create" in str(caught.value.help)

    store = open_configured_store(config)
    assert store is not None
    with store:
        add_key(store)
    worker.make_app(config, ANYWHERE).state.service.close()


def test_a_gate_without_a_store_has_no_keys_and_stays_at_home() -> None:
    worker.require_keys(gate_over(None), ServiceSettings())
    with pytest.raises(InputError):
        worker.require_keys(gate_over(None), ANYWHERE)


def test_a_revoked_key_does_not_open_the_house() -> None:
    with gate_over(open_store(":memory:")) as gate:
        assert gate.store is not None
        token = add_key(gate.store)
        gate.store.revoke_key(token.split("_")[1], "2026-11-15T12:00:00.000Z")
        with pytest.raises(InputError):
            worker.require_keys(gate, ANYWHERE)


def test_a_worker_serves_on_an_inherited_socket_until_its_parent_exits(
    tmp_path: Path,
) -> None:
    folder = folder_of(tmp_path)
    settings = ServiceSettings(port=0, drain_s=0.0)
    listener = bind_listener(settings)
    port = listener.getsockname()[1]
    alive, held = os.pipe()
    ready, told = os.pipe()
    given = msgspec.json.encode(settings).decode()
    words = [str(folder / "demur.toml"), given, *map(str, (listener.detach(), alive, told))]
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(worker.main(words)))
    thread.start()
    assert os.read(ready, 1) == b"1"
    assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    os.close(held)
    thread.join(30)
    os.close(ready)
    os.close(alive)

    assert ended == [0]


def test_a_worker_that_cannot_start_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as unused:
        words = [str(tmp_path / "no.toml"), "{}", str(unused.fileno()), "0", "0"]

        assert worker.main(words) == 1
    assert "no.toml" in capsys.readouterr().err


def test_a_stock_is_random_and_of_the_right_length() -> None:
    stock = RandomBuffer()

    assert len({stock(16) for _ in range(1000)}) == 1000
    assert [len(stock(size)) for size in (0, 1, 10_000)] == [0, 1, 10_000]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 32))
def test_nobody_gets_what_somebody_has(sizes: list[int], size: int) -> None:
    """INVARIANT: no random byte is handed out twice."""
    numbers = count()
    fetched: list[int] = []

    def source(wanted: int) -> bytes:
        # Places, not values: a byte that comes twice would be seen.
        fetched.append(wanted)
        return bytes(next(numbers) % 256 for _ in range(wanted))

    stock = RandomBuffer(source, size=size)
    handed = [stock(each) for each in sizes]

    assert [len(each) for each in handed] == sizes
    joined = b"".join(handed)
    places, at = [], 0
    for byte in joined:
        while at % 256 != byte:
            at += 1
        places.append(at)
        at += 1
    assert len(set(places)) == len(places)
    assert at <= sum(fetched)
