from types import SimpleNamespace
from typing import Any

import pytest

from demur.enforce.occasion import CallContext
from demur.integrations.mcp_server.occasions import context_from_request


def request(**headers: str) -> Any:
    return SimpleNamespace(headers={name.replace("_", "-"): one for name, one in headers.items()})


def token(subject: str | None) -> Any:
    return SimpleNamespace(subject=subject, client_id="app", scopes=("notes",))


def test_over_pipes_there_is_one_client() -> None:
    at = context_from_request("mcp", token=None, request=None, call_id=None)

    assert at == CallContext("mcp", run="local")


def test_a_session_is_a_run_whoever_signed_in() -> None:
    at = context_from_request(
        "mcp", token=token("ann"), request=request(mcp_session_id="s"), call_id=7
    )

    # Not by its own name: who reads records must not be able to take it over.
    assert (at.run, at.call_id) == ("043a718774c5", "7")


def test_nobody_knows_whose_a_stateless_request_is() -> None:
    assert context_from_request("mcp", token=None, request=request(), call_id=0).run is None


@pytest.mark.parametrize(
    ("subject", "kind", "who"), [("ann", "user", "ann"), (None, "client", "app")]
)
def test_who_signed_in_is_the_one_who_asks(subject: str | None, kind: str, who: str) -> None:
    at = context_from_request("mcp", token=token(subject), request=request(), call_id=0)

    assert at.subject == {"id": who, "type": kind, "roles": ["notes"]}
    assert (at.run, at.call_id) == (who, "0")
