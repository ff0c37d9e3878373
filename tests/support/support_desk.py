"""Short ways to use a working folder in tests of commands."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from support.command_line import demur

__all__ = ["ask", "changed_store", "decided", "newest", "set_policy", "setting", "signer"]

SMALL, LARGE, RISKY, UNCLEAR = (
    f"samples/{name}.json"
    for name in ("small-refund", "large-refund", "risky-refund", "unclear-risk")
)


def ask(action: str, **fields: Any) -> str:
    """Return a request as JSON."""
    subject = {"type": "agent", "id": "billing"}
    return json.dumps({"subject": subject, "action": {"type": action}, **fields})


def decided(*words: object, stdin: str = "") -> dict[str, Any]:
    """Return the record of `demur decide words…`."""
    ran = demur("decide", *words, "--json", stdin=stdin)
    assert ran.status != 1, ran.err
    record: dict[str, Any] = json.loads(ran.out)
    return record


def newest() -> dict[str, Any]:
    """Return the newest record."""
    record: dict[str, Any] = json.loads(demur("show", "last", "--json").out)
    return record


def setting(line: str) -> None:
    """Add a line to the settings."""
    path = Path("demur.toml")
    path.write_text(f"{path.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")


def set_policy(old: str, new: str) -> None:
    """Change the policy."""
    path = Path("policy.yaml")
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def signer(name: str = "mary", *more: object) -> Path:
    """Make a key, and return the file that signs."""
    words = ("--holder", f"user:{name}", "--algorithm", "hmac-sha256", *more)
    assert demur("grant", "keygen", name, *words).status == 0
    return Path(f"{name}.key.json")


@contextmanager
def changed_store() -> Iterator[sqlite3.Connection]:
    """Lend the database to somebody who means no good: its guards are gone."""
    with closing(sqlite3.connect("demur.db")) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for [name] in connection.execute(query).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        connection.commit()
