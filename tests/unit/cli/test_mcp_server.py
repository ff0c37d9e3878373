import argparse
import asyncio
from typing import Any

import pytest

from demur.cli.mcp_server import add_server_options, require_server_name, open_server
from demur.errors import InputError
from demur.integrations.mcp_proxy.http_server import HttpUpstream


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_server_options(parser)
    return parser.parse_args(words)


def test_a_server_goes_by_its_own_name_or_the_given_one() -> None:
    assert require_server_name(parsed("--", "python", "weather.py", "--flag")) == "weather"
    assert require_server_name(parsed("--name", "sky", "--", "python", "weather.py")) == "sky"
    assert require_server_name(parsed("--url", "https://mcp.example.com/x")) == "mcp.example.com"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--url", "http://x.test", "--", "python"],
        ["--name", "a\nb", "--", "x"],
        ["--url", "ftp://x.test"],
        ["--url", "http:///x"],
        ["--url", "http://[x"],
        ["--url", "http://x.test:99999"],
    ],
)
def test_one_server_is_named(words: list[str]) -> None:
    with pytest.raises(InputError):
        require_server_name(parsed(*words))


def test_a_header_takes_its_secret_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    args = parsed("--url", "http://x.test/mcp", "--header", "Authorization: Bearer ${TOKEN}")

    async def sent() -> Any:
        server = await open_server(args)
        assert isinstance(server, HttpUpstream)
        headers = server._http.headers
        await server.close()
        return headers

    assert asyncio.run(sent())["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    "words",
    [
        ["--url", "http://x.test", "--header", "X: é"],
        ["--url", "http://x.test", "--header", "X: a\x7f"],
        ["--url", "http://x.test", "--header", "X: ${NOT_SET_ANYWHERE}"],
        ["--url", "http://x.test", "--header", "no colon"],
        ["--url", "http://x.test", "--header", "bad name: x"],
        ["--", "/no/such/program"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_opened_is_an_error(words: list[str]) -> None:
    with pytest.raises(InputError):
        asyncio.run(open_server(parsed(*words)))
