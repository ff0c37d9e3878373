from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.dashboard_site import Site, fill, small_site
from support.gates import NOON, Ticking

from demur.codes.document import RegistryDocument, read_document
from demur.codes.registry import CORE_PATH, Registry
from demur.service.dashboard import runs as runs_page
from demur.service.settings import ServiceSettings


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return the folder of runs that the pages show; it is not there yet."""
    return tmp_path / "runs"


@pytest.fixture
def empty(runs: Path) -> Iterator[Site]:
    """Yield the pages of a service that decided nothing yet."""
    settings = ServiceSettings(runs=str(runs))
    with small_site(clock=Ticking(NOON + timedelta(minutes=5)), settings=settings) as site:
        yield site


@pytest.fixture
def site(empty: Site) -> Site:
    """Return the pages of a service with one decision of every kind."""
    fill(empty)
    return empty


@pytest.fixture
def registry_in_change(acme: Callable[..., RegistryDocument]) -> Registry:
    """Return a registry in which one code has taken the place of another."""
    old = {
        "code": "acme.com/OLD_WAY",
        "stability": "deprecated",
        "deprecated": True,
        "deprecated_since": "1.1.0",
        "replacement": "acme.com/NEW_WAY",
    }
    document = acme(old, {"code": "acme.com/NEW_WAY"}, version="1.1.0")
    return Registry(read_document(CORE_PATH), [document])


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock that limits how long a page reads runs: a test must not depend on load."""
    monkeypatch.setattr(runs_page, "monotonic", lambda: 0.0)
