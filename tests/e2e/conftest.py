"""A running service and a real Chromium. `make test-browser` sets up what they need."""

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn
from support.eval_runs import NO, PART, YES, a_run, pairs
from support.service_app import add_key

from demur.evals.run_files import write_manifest
from demur.gate.clock import system_clock
from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.service.app import build_app
from demur.service.dashboard import page_routes
from demur.service.sample import make_sample
from demur.service.service import Service
from demur.service.settings import ServiceSettings
from demur.store.opening import open_store

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]


class Running:
    """A service that answers at an address."""

    def __init__(self, service: Service, address: str, key: str = "") -> None:
        self.service = service
        self.gate = service.gate
        self.address = address
        self.key = key

    def decide(self, **request: Any) -> str:
        """Return the id of a decision for the tenant `shop`."""
        return self.gate.decide(request, tenant="shop").decision_id


@contextmanager
def running(folder: Path, *, sample: int = 0, locked: bool = False) -> Iterator[Running]:
    """Yield a service on a free port, in a thread of its own."""
    text = (files("demur.service.sample") / "policy.yaml").read_text(encoding="utf-8")
    store = open_store(str(folder / "records.db"))
    if sample:
        make_sample(store, system_clock(), count=sample)
    key = add_key(store, "sample", "read", "label", clock=system_clock) if locked else ""
    if sample:
        # The browser keeps the event loop of this thread.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(measure_models, folder / "runs").result()
    settings = ServiceSettings(runs=str(folder / "runs"))
    with (
        Gate(parse_policy(text, "sample policy"), store) as gate,
        serving(gate, settings) as opened,
    ):
        opened.key = key
        yield opened


def measure_models(runs: Path) -> None:
    """Make three runs of evals of two models, and what is left of a fourth."""
    rows = pairs(12)
    a_run(runs / "first", {"good-1": NO, "good-2": NO, "bad-3": YES}, rows)
    a_run(runs / "second", {"good-1": NO, "bad-1": PART}, rows, hours=5)
    other = a_run(runs / "another-model", {"bad-1": YES, "bad-5": YES}, rows, hours=9)
    target = msgspec.structs.replace(other.manifest.target, name="another")
    write_manifest(other.folder, msgspec.structs.replace(other.manifest, target=target))
    (runs / "torn").mkdir()
    (runs / "torn" / "run.json").write_text("{", encoding="utf-8")


@contextmanager
def serving(gate: Gate, settings: ServiceSettings | None = None) -> Iterator[Running]:
    """Yield a service over a gate on a free port, in a thread of its own."""
    service = Service(gate, settings)
    config = uvicorn.Config(build_app(service, page_routes(service)), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    ready = threading.Event()
    while not server.started and thread.is_alive():
        ready.wait(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Running(service, f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a service with a sample day."""
    with running(tmp_path_factory.mktemp("service"), sample=260) as one:
        yield one


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a service that asks for a key."""
    with running(tmp_path_factory.mktemp("locked"), sample=30, locked=True) as one:
        yield one


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Yield a browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="`make test-browser` has it")
    if CHROMIUM is None:
        pytest.skip("neither chromium nor google-chrome is on PATH (`apt install chromium`)")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Tab:
    """A tab, and everything that went wrong in it."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.page = context.new_page()
        self.wrong: list[str] = []
        self.page.on("dialog", self._dialog)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", self._console)

    def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message: Any) -> None:
        # A page that was not found is an error only to the console.
        if message.type == "error" and "404" not in message.text and "422" not in message.text:
            self.wrong.append(f"console: {message.text}")


@pytest.fixture
def tabs(chromium: Any) -> Iterator[Any]:
    """Yield what opens a tab; nothing may go wrong in any of them."""
    opened: list[Tab] = []

    def new(*, width: int = 1360, scheme: str = "light", **more: Any) -> Tab:
        viewport = {"width": width, "height": 900}
        settings = {"viewport": viewport, "color_scheme": scheme, "locale": "en-GB", **more}
        context = chromium.new_context(**settings)
        context.set_default_timeout(15_000)
        tab = Tab(context)
        opened.append(tab)
        return tab

    yield new
    for tab in opened:
        tab.context.close()
    assert [wrong for tab in opened for wrong in tab.wrong] == []
