import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from support.gates import NOON, Ticking, gate_over
from support.service_app import Caller, add_key, open_service, open_service_over

from demur.observe.metrics import Metrics
from demur.service.access import open_access_log
from demur.service.settings import ServiceSettings
from demur.store.opening import open_store

LOGGING = ServiceSettings(access_log=True)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Yield what the access log writes."""
    stream, logger = io.StringIO(), logging.getLogger("demur.access")
    before = (logger.handlers[:], logger.level, logger.propagate)
    open_access_log(stream)
    yield stream
    logger.handlers[:], logger.level, logger.propagate = before


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_each_call_is_one_line_without_query_or_ids(written: io.StringIO) -> None:
    with open_service(LOGGING, clock=Ticking(NOON)) as call:
        call("GET", "/v1/decisions/01SECRET?tenant=hidden", headers={"traceparent": PARENT})
        call("GET", "/v1/codes/RCE_RISK")

    first, second = lines(written)
    assert first.pop("ms") >= 0
    assert first.pop("bytes") > 0
    assert first == {
        "time": first["time"],
        "method": "GET",
        "route": "/v1/decisions/{decision_id}",
        "status": 422,
        "caller": "local",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
    }
    assert (second["route"], second["status"], second["trace_id"]) == (
        "/v1/codes/{code}",
        200,
        None,
    )
    for secret in ("hidden", "01SECRET", "RCE_RISK"):
        assert secret not in written.getvalue()


def test_the_log_names_the_key_and_not_its_token(written: io.StringIO) -> None:
    with gate_over(open_store(":memory:")) as gate:
        assert gate.store is not None
        key = add_key(gate.store, "acme", "read")
        with open_service_over(gate, LOGGING) as call:
            call("GET", "/v1/stats", key=key)
            call("GET", "/v1/stats")

        [stored] = gate.store.list_keys()
    named, unnamed = lines(written)
    assert named["caller"] == stored.key_id
    assert key not in written.getvalue()
    assert (unnamed["caller"], unnamed["status"]) == (None, 401)


@pytest.mark.parametrize("parent", ["", "rubbish", PARENT.upper(), PARENT[:-4], f'{PARENT}"\n{{'])
def test_a_trace_header_that_is_none_is_left_out(written: io.StringIO, parent: str) -> None:
    with open_service(LOGGING) as call:
        call.run(_called_raw(call, [(b"host", b"localhost"), (b"traceparent", parent.encode())]))

    assert [line["trace_id"] for line in lines(written)] == [None]


async def _called_raw(call: Caller, headers: list[tuple[bytes, bytes]]) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(_: dict[str, Any]) -> None:
        pass

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/health",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
    }
    await call.app(scope, receive, send)  # type: ignore[arg-type]


def test_the_log_is_off_by_default(written: io.StringIO) -> None:
    with open_service() as call:
        call("GET", "/health")

    assert written.getvalue() == ""


def test_calls_are_counted_by_pattern_method_and_status() -> None:
    metrics = Metrics()
    with open_service(metrics=metrics) as call:
        call("GET", "/v1/codes/RCE_RISK")
        call("GET", "/v1/codes/RATE_LIMIT")
        call("GET", "/v1/codes/NOTHING_LIKE_IT")
        call("GET", "/nowhere/at/all")
        call("BREW", "/health")

    def counted(**labels: str) -> float | None:
        found: float | None = metrics.collector.get_sample_value(
            "demur_http_requests_total", labels
        )
        return found

    assert counted(route="/v1/codes/{code}", method="GET", status="200") == 2
    assert counted(route="/v1/codes/{code}", method="GET", status="404") == 1
    assert counted(route="_other", method="GET", status="404") == 1
    # A method that nobody knows is no label.
    assert counted(route="_other", method="_other", status="405") == 1
    timed = metrics.collector.get_sample_value(
        "demur_http_request_seconds_count", {"route": "/v1/codes/{code}", "method": "GET"}
    )
    assert timed == 3
