"""Each call that the page on HTTP shows is answered as the page says."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from support.service_app import Caller, open_service_over

from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.service.routes import ROUTES
from demur.store.opening import open_store

HOW_TO = Path(__file__).parents[2] / "docs/how-to"
PAGES = [HOW_TO / "enforce-over-http.md", HOW_TO / "run-the-service.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POLICY = """
schema_version: policy.v1
policy_id: open
policy_version: 1.0.0
defaults: { verdict: ALLOW }
rules: []
"""


class CurlCall(NamedTuple):
    """A call as curl would make it."""

    path: str
    headers: dict[str, str]
    content: bytes


def read_curl(words: list[str], piped: bytes) -> CurlCall:
    """Return the call of a command line; `piped` is its standard input."""
    headers, content, path = {}, b"", ""
    rest = iter(words[1:])
    for word in rest:
        if word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            content = next(rest).encode()
        elif word == "-T":
            assert next(rest) == "-"
            content = piped
        elif word == "-X":
            assert next(rest) == "POST"
        elif not word.startswith("-"):
            path = urlsplit(word).path
    return CurlCall(path, headers, content)


def read_calls(page: Path) -> Iterator[tuple[CurlCall, str]]:
    """Yield the calls of a page, each with the block below it."""
    blocks = FENCE.findall(page.read_text(encoding="utf-8"))
    for index, (language, text) in enumerate(blocks):
        if language != "sh" or "curl " not in text:
            continue
        below = blocks[index + 1][1] if index + 1 < len(blocks) else ""
        for line in re.split(r"^(?=curl |printf )", text, flags=re.MULTILINE):
            if not line.strip():
                continue
            before, pipe, command = line.rpartition("|\n")
            texts = shlex.split(before)[2:] if pipe else []
            piped = "".join(f"{one}\n" for one in texts).encode()
            yield read_curl(shlex.split(command or line), piped), below


@pytest.fixture(scope="module")
def call() -> Iterator[Caller]:
    gate = Gate(parse_policy(POLICY), open_store(":memory:"))
    with open_service_over(gate) as caller:
        yield caller


def matches(shown: str, answered: str) -> bool:
    """Return whether a page shows a part of the answer."""
    if shown.startswith("{"):
        parts: dict[str, Any] = json.loads(shown)
        found = json.loads(answered)
        return all(found[name] == value for name, value in parts.items())
    return all(line.partition(" …")[0] in answered for line in shown.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_call_on_a_page_is_answered_as_shown(page: Path, call: Caller) -> None:
    calls = list(read_calls(page))
    for one, below in calls:
        answered = call("POST", one.path, content=one.content, headers=one.headers)
        assert answered.status_code == 200, (one, answered.text)
        if one is calls[0][0] or one.path.endswith("/stream"):
            assert page.stem != "enforce-over-http" or matches(below, answered.text), one
    assert calls


def test_the_page_shows_every_check() -> None:
    shown = {one.path for one, _ in read_calls(PAGES[0])}
    assert shown == {route.path for route in ROUTES if route.path.startswith("/v1/enforce/")}
