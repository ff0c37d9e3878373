"""What tests of the store share: a store in a file, and a way to write behind its back."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from support.store_records import tamper_with

from demur.store.opening import open_store
from demur.store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store's file is."""
    return tmp_path / "records.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """Return an empty store in a file."""
    with open_store(path, durability="normal") as opened:
        yield opened


@pytest.fixture
def tamper(path: Path) -> Callable[..., int]:
    """Return a function that writes to the file as somebody would who hides it."""
    return partial(tamper_with, path)
