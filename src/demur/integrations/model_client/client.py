"""An SDK's client whose requests to a model are guarded, whichever of its methods sends them.

The clients of OpenAI and Anthropic are built alike: each method of theirs ends in the client's
own `post`. A copy of the client gets another one, so that no helper, parser or new version of
an interface leads around it; the user's own client stays as it is.
"""

import copy
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, NamedTuple, cast

from demur.errors import DemurError, InputTypeError
from demur.integrations.model_client.call import ModelCall
from demur.integrations.model_client.form import ApiFormat, OutgoingRequest
from demur.integrations.model_client.settings import ModelClientSettings
from demur.integrations.model_client.steps import adrive, drive

__all__ = ["ClientGuard", "UnguardableError", "guard_client"]

_COPY_METHODS = ("copy", "with_options", "with_middleware")
_RAW_HEADER = "x-stainless-raw-response"
_OMITTED_TYPES = {"Omit", "NotGiven"}


class UnguardableError(DemurError):
    """The client is built differently from the versions that demur knows."""


class ClientGuard(NamedTuple):
    """How to guard a client: the API format of each path, and the settings.

    Paths match by their end; `*` matches anything. `probe` returns the method through which a
    client sends guarded requests.
    """

    formats: Mapping[str, ApiFormat]
    settings: ModelClientSettings
    probe: Callable[[Any], Any]
    is_async: bool


def guard_client(client: Any, client_guard: ClientGuard) -> Any:
    """Return a guarded copy of `client`; copies of that copy are guarded, too.

    Raises:
        UnguardableError: The client's requests would bypass the checks.
    """
    double = copy.copy(client)
    state = vars(double)
    for name in [name for name in state if _is_cached(client, name)]:
        # Cached resources of the original client would bypass the checks.
        del state[name]
    post = _make_post(client, double, client_guard)
    state["post"] = post
    for name in _COPY_METHODS:
        if hasattr(client, name):
            state[name] = _guard_copies(_bind_method(name, client, double), client_guard)
    if client_guard.probe(double) is not post:
        raise UnguardableError(
            "demur cannot guard this version of the client",
            help="use a version that demur was tested with",
        )
    return double


def _is_cached(client: Any, name: str) -> bool:
    return isinstance(getattr(type(client), name, None), cached_property)


def _bind_method(name: str, client: Any, double: Any) -> Callable[..., Any]:
    """Return a method bound to the copy, so that it uses the copy's keys and URLs."""
    if name in vars(client):
        # The client is guarded already; keep that guard.
        return cast("Callable[..., Any]", getattr(client, name))
    return cast("Callable[..., Any]", getattr(type(client), name).__get__(double))


def _guard_copies(make: Callable[..., Any], client_guard: ClientGuard) -> Callable[..., Any]:
    def copied(*arguments: Any, **named: Any) -> Any:
        return guard_client(make(*arguments, **named), client_guard)

    return copied


def _make_post(client: Any, double: Any, client_guard: ClientGuard) -> Callable[..., Any]:
    """Return the replacement for the client's `post`."""
    send = _bind_method("post", client, double)
    calls = {
        path: ModelCall(form, client_guard.settings, is_async=client_guard.is_async)
        for path, form in client_guard.formats.items()
    }

    def post(path: str, **named: Any) -> Any:
        call = _find_call(path, calls)
        if call is None:
            return send(path, **named)
        return drive(call.run_steps(_read_request(send, path, named)))

    async def apost(path: str, **named: Any) -> Any:
        call = _find_call(path, calls)
        if call is None:
            return await send(path, **named)
        return await adrive(call.run_steps(_read_request(send, path, named)))

    return apost if client_guard.is_async else post


def _find_call(path: str, calls: Mapping[str, ModelCall]) -> ModelCall | None:
    plain = "/" + path.partition("?")[0].strip("/")
    return next((call for end, call in calls.items() if fnmatchcase(plain, f"*{end}")), None)


def _read_request(send: Callable[..., Any], path: str, named: Mapping[str, Any]) -> OutgoingRequest:
    body, options = named.get("body"), dict(named.get("options") or {})
    if not isinstance(body, Mapping):
        raise InputTypeError.wrong_type("the body of a guarded request", "a mapping", body)
    extra = options.pop("extra_json", None) or {}
    # `extra_body` overrides fields of the body, so check the merged body.
    whole = {name: _materialize_iterator(value) for name, value in {**body, **extra}.items()}
    whole = {name: value for name, value in whole.items() if not _is_left_out(value)}
    headers = {key.lower(): value for key, value in (options.get("headers") or {}).items()}
    streams = bool(named.get("stream"))
    # Parse here, after the check.
    parse = None if streams else options.pop("post_parser", None)
    rest = {name: value for name, value in named.items() if name not in {"body", "options"}}
    return OutgoingRequest(
        send=lambda sent: send(path, body=sent, options=options, **rest),
        body=whole,
        cast_to=named.get("cast_to"),
        parse=parse,
        wants_stream=streams,
        raw=headers.get(_RAW_HEADER) or False,
    )


def _materialize_iterator(value: Any) -> Any:
    """Return a value that can be read more than once; messages may come from a generator."""
    return list(value) if hasattr(value, "__next__") else value


def _is_left_out(value: Any) -> bool:
    return type(value).__name__ in _OMITTED_TYPES
