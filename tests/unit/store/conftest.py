"""What tests of the store share: a store in a file, and a way to write behind its back."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

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

    def change(statement: str, *values: Any) -> int:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (name,) in triggers.fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            return connection.execute(statement, values).rowcount

    return change
