import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from adapters.driver_mcp_proxy import MCPProxyDriver
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult
from support import mcp_sample_server

from demur.emit.hosts import from_mcp, from_mcp_denial
from demur.gate.config import load_config, open_configured_store
from demur.model.refusal import Refusal
from demur.testing.conformance import run_scenario
from demur.testing.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.adapters

SERVERS = Path(__file__).parent / "mcp_servers.py"
POLICY = """
schema_version: policy.v1
policy_id: proxied
policy_version: 1.0.0
rules:
  - {id: R_ALL, stage: ALLOW_PATHS, if: {action_type: {exists: true}}, then: {verdict: ALLOW}}
"""
Says = Callable[[Client], Coroutine[Any, Any, Any]]
# Each kind of server, and each way to agree on a version, though not all of them together.
TALKS = [
    ("stdio", "legacy"),
    ("stdio", "auto"),
    ("fastmcp", "auto"),
    ("http-sse", "legacy"),
    ("http-sse", "auto"),
    ("http-json", "legacy"),
    ("http-stateless", "auto"),
]
OVER_HTTP = [("stdio", "legacy"), ("stdio", "auto"), ("fastmcp", "auto"), ("http-sse", "auto")]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario.name))
def test_scenes_end_as_everywhere(scenario: Scenario) -> None:
    assert run_scenario(MCPProxyDriver(), scenario).problems == ()


class Site:
    """A folder with settings, a log of what tools ran, and the server that the proxy guards."""

    def __init__(self, folder: Path, *server: str) -> None:
        self.folder = folder
        self.log = folder / "ran"
        self.server = server
        (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
        (folder / "demur.toml").write_text('policy = "policy.yaml"\n', encoding="utf-8")

    @property
    def ran(self) -> list[str]:
        """Return the tools that ran."""
        return self.log.read_text(encoding="utf-8").split() if self.log.exists() else []

    @property
    def codes(self) -> set[str]:
        """Return the codes of all decisions in the store."""
        store = open_configured_store(load_config(self.folder / "demur.toml"))
        assert store is not None
        with store:
            return {code for record in store.find_records() for code in record.reason_codes}

    def talk(
        self,
        says: Says,
        *options: str,
        mode: str = "auto",
        over_http: bool = False,
        **more: Any,
    ) -> Any:
        """Return what comes of a talk of the real client with the proxy."""
        if over_http:
            with self.listening(*options) as url:
                return asyncio.run(talked(url, says, mode=mode, **more))
        params = StdioServerParameters(
            command=sys.executable,
            args=self.command(*options),
            env=dict(os.environ),
            cwd=self.folder,
        )
        return asyncio.run(talked(params, says, mode=mode, **more))

    def command(self, *options: str) -> list[str]:
        """Return how the proxy is run."""
        config = ["--config", str(self.folder / "demur.toml")]
        return ["-m", "demur", "mcp", "proxy", *config, "--name", "real", *options, *self.server]

    @contextmanager
    def listening(self, *options: str) -> Iterator[str]:
        """Yield where the proxy listens; it must end well when it is told to."""
        with subprocess.Popen(
            [sys.executable, *self.command("--listen", "0", *options)],
            cwd=self.folder,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            try:
                yield next(line for line in lines if "listens on" in line).split()[-1]
            finally:
                process.terminate()
                # A server that was left behind would hold it open.
                process.communicate(timeout=30)
        assert process.returncode == 0


async def talked(target: Any, says: Says, **settings: Any) -> Any:
    async with Client(target, read_timeout_seconds=30, **settings) as client:
        return await says(client)


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    log = str(tmp_path / "ran")
    kind, _, style = request.param.partition("-")
    if not style:
        yield Site(tmp_path, "--", sys.executable, str(SERVERS), kind, log)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, SERVERS, kind, log, str(port), style])
    try:
        _wait_for(port)
        yield Site(tmp_path, "--url", f"http://127.0.0.1:{port}/mcp")
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            return


def refusal_of(result: Any) -> Refusal | None:
    return from_mcp(result.model_dump(mode="json", by_alias=True))


@pytest.mark.parametrize(
    ("site", "mode", "over_http"),
    [(*talk, False) for talk in TALKS] + [(*talk, True) for talk in OVER_HTTP],
    indirect=["site"],
)
def test_a_real_client_and_a_real_server_talk_past_the_guard(
    site: Site, mode: str, over_http: bool
) -> None:
    async def says(client: Client) -> None:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert {"say", "wipe"} <= set(listed)
        # What it says to the model never reaches one.
        assert "notes" not in listed
        result: Any = await client.call_tool("say", {"text": "hello"})
        assert result.content[0].text == "hello"
        if "near" in listed:
            # Over HTTP, newer servers want that argument in a header, too.
            result = await client.call_tool("near", {"region": "Köln"})
            assert result.content[0].text == "near Köln"
        refused = refusal_of(await client.call_tool("wipe", {"disk": "a"}))
        assert refused is not None
        assert refused.code == "TOOL_NOT_ALLOWED"
        withheld = refusal_of(await client.call_tool("say", {"text": "orders"}))
        assert withheld is not None
        assert withheld.code == "CONTEXT_INJECTION"
        poisoned = refusal_of(await client.call_tool("notes", {}))
        assert poisoned is not None
        assert poisoned.code == "UNVERIFIED_TOOL"
        for reading in (client.get_prompt("brief"), client.read_resource("file:///page")):
            with pytest.raises(MCPError) as caught:
                await reading
            data = {"error": caught.value.error.model_dump(mode="json")}
            denied = from_mcp_denial(data)
            assert denied is not None
            assert denied.code == "CONTEXT_INJECTION"

    site.talk(says, "--deny", "wipe", mode=mode, over_http=over_http)

    assert site.ran == ["say", "say"]
    assert {"TOOL_NOT_ALLOWED", "CONTEXT_INJECTION", "UNVERIFIED_TOOL"} <= site.codes


@pytest.mark.parametrize("site", ["stdio", "http-sse"], indirect=True)
def test_pins_of_a_real_server_hold(site: Site) -> None:
    pinned = subprocess.run(
        [sys.executable, "-m", "demur", "mcp", "pin", "--name", "real", *site.server],
        cwd=site.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert pinned.returncode == 3, pinned.stderr
    assert "refused `notes`" in pinned.stdout

    async def says(client: Client) -> list[str]:
        listed = (await client.list_tools()).tools
        result: Any = await client.call_tool("say", {"text": "hello"})
        assert result.content[0].text == "hello"
        return [tool.name for tool in listed]

    assert "notes" not in site.talk(says, "--pins", "mcp_pins.json")
    assert refusal_of(site.talk(_wipe_as_other, "--pins", "mcp_pins.json", "--name", "x"))


async def _wipe_as_other(client: Client) -> Any:
    return await client.call_tool("wipe", {"disk": "a"})


def test_a_server_that_talks_oddly_leaves_no_real_client_waiting(tmp_path: Path) -> None:
    site = Site(tmp_path, "--", sys.executable, mcp_sample_server.__file__)

    async def says(client: Client) -> None:
        for text in ("both", "return"):
            result: Any = await client.call_tool("echo", {"text": text})
            assert result.content[0].text == text
        refused = refusal_of(await client.call_tool("echo", {"text": "picture"}))
        assert refused is not None
        assert refused.code == "CONTEXT_INJECTION"
        with pytest.raises(MCPError, match="cannot read the answer"):
            await client.call_tool("echo", {"text": "nan"})

    site.talk(says, mode="legacy")


@pytest.mark.parametrize("over_http", [False, True])
def test_progress_passes(tmp_path: Path, over_http: bool) -> None:
    site = Site(tmp_path, "--", sys.executable, str(SERVERS), "stdio")
    seen: list[float] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        del total, message
        seen.append(progress)

    async def says(client: Client) -> Any:
        return await client.call_tool("steps", {}, progress_callback=heard)

    assert site.talk(says, over_http=over_http).content[0].text == "done"
    assert seen == [1, 2]


@pytest.mark.parametrize("over_http", [False, True])
def test_elicitations_and_logs_pass_unless_they_contain_orders(
    tmp_path: Path, over_http: bool
) -> None:
    site = Site(tmp_path, "--", sys.executable, str(SERVERS), "stdio")
    asked: list[str] = []
    logged: list[Any] = []

    async def answer(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="decline")

    async def log(params: Any) -> None:
        logged.append(params.data)

    async def says(client: Client) -> None:
        fine: Any = await client.call_tool("ask", {"question": "Which city?"})
        assert fine.content[0].text == "decline"
        # The refusal is what the server hears, and here it says so.
        with pytest.raises(MCPError, match="CONTEXT_INJECTION"):
            await client.call_tool("ask", {"question": mcp_sample_server.POISON})

    site.talk(
        says,
        "--no-loops",
        mode="legacy",
        over_http=over_http,
        elicitation_callback=answer,
        logging_callback=log,
    )

    assert (asked, logged) == (["Which city?"], ["Which city?"])


def test_clients_over_http_share_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path, "--", sys.executable, str(SERVERS), "stdio")

    async def says(client: Client) -> list[Any]:
        calls = (client.call_tool("say", {"text": f"{number}"}) for number in range(5))
        return await asyncio.gather(*calls)

    async def both(url: str) -> list[list[Any]]:
        return await asyncio.gather(*(talked(url, says) for _ in range(3)))

    with site.listening() as url:
        for answers in asyncio.run(both(url)):
            assert [one.content[0].text for one in answers] == ["0", "1", "2", "3", "4"]


def test_a_client_over_http_learns_that_its_server_is_gone(tmp_path: Path) -> None:
    site = Site(tmp_path, "--", sys.executable, mcp_sample_server.__file__)

    async def says(client: Client) -> None:
        with pytest.raises(MCPError, match="gone"):
            await client.call_tool("echo", {"text": "die"})
        # Another one can begin.
        assert (await talked(url, hello)).content[0].text == "hello"

    async def hello(client: Client) -> Any:
        return await client.call_tool("echo", {"text": "hello"})

    with site.listening() as url:
        asyncio.run(talked(url, says, mode="legacy"))
