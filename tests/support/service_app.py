"""A service for tests: in this process, without a socket, with keys of two tenants."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
from starlette.applications import Starlette

from demur.gate.gate import Gate
from demur.service.app import build_app
from demur.service.authentication import KEY_ROLES, make_key
from demur.service.service import Service
from demur.service.settings import ServiceSettings
from demur.store.opening import open_store
from demur.store.store import Store
from support.gates import NOON, Ticking, entropy_of, gate_over

__all__ = ["ALL_ROLES", "Caller", "add_key", "open_service", "open_service_over"]

ALL_ROLES = KEY_ROLES
JSON = {"content-type": "application/json"}
# The first check of a new machine compiles rules, which a busy one takes long for.
PATIENT = {"timeout_s": 3600.0, "budget_cpu_s": 3600.0}


class Caller:
    """Calls a service, one call after the other."""

    def __init__(self, app: Starlette, service: Service, runner: asyncio.Runner) -> None:
        self.app = app
        self.service = service
        self._runner = runner

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        client: tuple[str, int] = ("127.0.0.1", 5000),
    ) -> httpx.Response:
        """Return the answer to one call; `body` is sent as JSON."""
        sent = dict(headers or {})
        if key is not None:
            sent = {"authorization": f"Bearer {key}", **sent}
        if content is None and body is not None:
            content, sent = json.dumps(body).encode(), {**JSON, **sent}
        answered: httpx.Response = self.run(self._called(method, path, content, sent, client))
        return answered

    def run(self, coroutine: Any) -> Any:
        """Return what a coroutine gives, in the loop of the service."""
        return self._runner.run(coroutine)

    @property
    def store(self) -> Store:
        """The store behind the service."""
        return self.service.store

    async def _called(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str],
        client: tuple[str, int],
    ) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app, client=client)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.request(method, path, content=content, headers=dict(headers))


def add_key(store: Store, tenant: str = "acme", *roles: str, seed: str = "", **more: Any) -> str:
    """Return a key that was added to a store; without roles it has all of them."""
    usual = {"clock": Ticking(), "entropy": entropy_of(f"{tenant} {roles} {seed}")}
    made = make_key(tenant, roles or ALL_ROLES, **{**usual, **more})
    store.add_key(made.key)
    return made.token


@contextmanager
def open_service_over(
    gate: Gate, settings: ServiceSettings | None = None, **more: Any
) -> Iterator[Caller]:
    """Yield the caller of a service over a gate; limits that are not set do not end slow work."""
    usual = ServiceSettings()
    chosen = usual if settings is None else settings
    changes = {
        name: one for name, one in PATIENT.items() if getattr(chosen, name) == getattr(usual, name)
    }
    chosen = msgspec.structs.replace(chosen, **changes)
    service = Service(gate, chosen, **{"clock": Ticking(NOON), **more})
    try:
        with asyncio.Runner() as runner:
            yield Caller(build_app(service), service, runner)
    finally:
        service.close()


@contextmanager
def open_service(settings: ServiceSettings | None = None, **more: Any) -> Iterator[Caller]:
    """Yield the caller of a service over a store in memory, where no key was made."""
    with (
        gate_over(open_store(":memory:")) as gate,
        open_service_over(gate, settings, **more) as call,
    ):
        yield call
