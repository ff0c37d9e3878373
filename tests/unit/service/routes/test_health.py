import pytest
from gates import gate_over
from openapi_spec_validator import validate
from served import add_key, served, serving

from demur.observe.metrics import Metrics
from demur.service.problem import ProblemError
from demur.store.backend import StorageError
from demur.store.opening import open_store
from demur.store.store import Store


class Failing(Store):
    """A store that does not answer."""

    error: Exception = StorageError("gone")

    def info(self) -> dict[str, object]:
        """Fail."""
        raise self.error


def test_a_service_is_up_and_ready() -> None:
    with served() as call:
        assert call("GET", "/health").json()["status"] == "up"
        assert call("GET", "/ready").json()["status"] == "ready"
        assert call("GET", "/ready").json()["status"] == "ready"


def test_the_store_is_asked_once_a_second_at_most() -> None:
    with served() as call:
        call("GET", "/ready")
        asked = call.service.checked_at
        call("GET", "/ready")

        assert call.service.checked_at == asked


def test_a_service_without_a_store_is_ready() -> None:
    with serving(gate_over(None)) as call:
        assert call("GET", "/ready").status_code == 200


def test_a_service_that_ends_is_up_but_not_ready() -> None:
    with served() as call:
        call.service.closing = True

        assert call("GET", "/ready").status_code == 503
        assert call("GET", "/health").status_code == 200


@pytest.mark.parametrize("error", [StorageError("gone"), ProblemError(503, "RATE_LIMIT", "busy")])  # type: ignore[arg-type]
def test_a_service_whose_store_does_not_answer_is_not_ready(error: Exception) -> None:
    with open_store(":memory:") as real:
        store = Failing(real.backend)
        store.error = error
        with serving(gate_over(store)) as call:
            assert call("GET", "/ready").status_code == 503
            assert call("GET", "/health").status_code == 200


def test_metrics_are_for_keys_of_all_tenants_and_loopback() -> None:
    with served(metrics=Metrics()) as call:
        assert b"demur_decisions_total" in call("GET", "/metrics").content
        assert call("GET", "/metrics").headers["content-type"].startswith("text/plain")
        every, one = add_key(call.store, "", "read"), add_key(call.store, "acme", "read")
        assert call("GET", "/metrics", key=every).status_code == 200
        assert call("GET", "/metrics", key=one).status_code == 403
    with served() as call:
        assert call("GET", "/metrics").status_code == 404


def test_the_description_is_served_to_everybody_and_holds() -> None:
    with served() as call:
        first, again = call("GET", "/openapi.json"), call("GET", "/openapi.json")

    assert first.content == again.content
    validate(first.json())
