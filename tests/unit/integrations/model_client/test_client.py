"""A client's copy that guards: every way to send leads through it, and the client stays."""

import asyncio
import importlib
import sys
from typing import Any

import pytest
from toy_models import Answer, ToyClient, ToyForm, settings

from demur.enforce.enforcer import Enforcer
from demur.enforce.ruling import Refused
from demur.errors import InputTypeError, MissingExtraError
from demur.gate.pipeline import GuardPipeline
from demur.integrations.model_client.client import ClientGuard, UnguardableError, guard_client


class Omit:
    """What an SDK puts where nothing is given."""


class Server:
    """Answers all, and keeps what it was sent."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, path: str, **given: Any) -> Any:
        """Return an answer."""
        self.heard.append((path, given))
        return Answer("fine")


def probe(client: Any) -> Any:
    return client.models._post


def guard(client: Any, *, awaits: bool = False, **given: Any) -> Any:
    chosen = settings(**given)
    forms = {"/ask": ToyForm(chosen, awaits=awaits)}
    return guard_client(client, ClientGuard(forms, chosen, probe, awaits))


def test_requests_to_a_model_are_guarded_and_others_pass() -> None:
    server = Server()
    client = guard(ToyClient(server))

    assert client.models.ask("hello").choices == ("fine",)
    client.models.other()
    with pytest.raises(Refused):
        client.models.ask("bad")
    assert [path for path, _ in server.heard] == ["/ask", "/other"]


def test_the_client_itself_stays_as_it_is() -> None:
    client = ToyClient(Server())
    models = client.models
    double = guard(client)

    assert client.models is models
    assert client.models.ask("bad").choices == ("fine",)
    assert isinstance(double, ToyClient)
    assert double.models is not models


def test_copies_guard_too() -> None:
    with pytest.raises(Refused):
        guard(ToyClient(Server())).copy().copy().models.ask("bad")


def test_who_is_guarded_twice_is_guarded_by_both() -> None:
    client = guard(guard(ToyClient(Server())), enforcer=Enforcer(pipeline=GuardPipeline([])))

    assert client.models.ask("hello").choices == ("fine",)
    with pytest.raises(Refused):
        client.models.ask("bad")
    with pytest.raises(Refused):
        client.copy().models.ask("bad")


@pytest.mark.parametrize("path", ["/ask?beta=true", "ask", "/ask/", "http://x/v1/ask"])
def test_a_path_is_known_in_any_spelling(path: str) -> None:
    with pytest.raises(Refused):
        guard(ToyClient(Server())).post(path, body={"text": "bad"})


def test_what_is_added_to_a_body_is_judged_and_sent_as_one() -> None:
    server = Server()
    client = guard(ToyClient(server))
    client.post("/ask", body={"text": "a", "n": Omit()}, options={"extra_json": {"k": 1}, "t": 2})

    [(_, given)] = server.heard
    assert given == {"body": {"text": "a", "k": 1}, "options": {"t": 2}}
    with pytest.raises(Refused):
        client.post("/ask", body={"text": "a"}, options={"extra_json": {"text": "bad"}})


def test_what_can_be_read_only_once_is_read_once() -> None:
    server = Server()
    guard(ToyClient(server)).post("/ask", body={"messages": iter("ab")})

    assert server.heard[0][1]["body"]["messages"] == ["a", "b"]


@pytest.mark.parametrize("value", ["true", "raw", "stream"])
def test_who_wants_the_http_response_gets_it_or_a_refusal_is_raised(value: str) -> None:
    options = {"headers": {"X-Stainless-Raw-Response": value}}
    client = guard(ToyClient(Server()), on_refusal="answer")

    assert isinstance(client.post("/ask", body={"text": "a"}, options=options), Answer)
    with pytest.raises(Refused):
        client.post("/ask", body={"text": "bad"}, options=options)


@pytest.mark.parametrize("given", [{}, {"content": b"{}"}, {"body": b"{}"}])
def test_a_body_that_cannot_be_read_is_not_sent(given: dict[str, Any]) -> None:
    server = Server()
    with pytest.raises(InputTypeError):
        guard(ToyClient(server)).post("/ask", **given)

    assert server.heard == []


def test_a_client_whose_requests_go_elsewhere_is_not_guarded_in_name_only() -> None:
    class Eager(ToyClient):
        def __init__(self, answer: Any) -> None:
            super().__init__(answer)
            self.mine = ToyClient(answer).models

    client = Eager(Server())
    chosen = settings()
    with pytest.raises(UnguardableError):
        guard_client(client, ClientGuard({}, chosen, lambda one: one.mine._post, is_async=False))


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_client_that_is_not_installed_is_said_to_be_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    for loaded in [one for one in sys.modules if one.startswith(f"demur.integrations.{name}")]:
        monkeypatch.delitem(sys.modules, loaded)

    with pytest.raises(MissingExtraError) as caught:
        importlib.import_module(f"demur.integrations.{name}_client")
    assert caught.value.help == f"pip install 'demur[{name}]'"


def test_awaited_clients_do_the_same() -> None:
    async def answer(path: str, **_given: Any) -> Any:
        await asyncio.sleep(0)
        return Answer(path)

    async def played() -> None:
        client = guard(ToyClient(answer), awaits=True)
        assert (await client.models.ask("hello")).choices == ("/ask",)
        assert (await client.models.other()).choices == ("/other",)
        with pytest.raises(Refused):
            await client.copy().models.ask("bad")

    asyncio.run(played())
