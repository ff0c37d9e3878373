"""Two stores with the same few hundred decisions, and one way to ask both."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from support.postgres_server import Server
from support.store_records import make_record

from demur.audit.parquet_folder import export_parquet
from demur.codes.vocabulary import Verdict
from demur.model.record import Amount, DecisionRecord, PolicyRef
from demur.store.opening import open_store

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Rows]

VERDICTS = (Verdict.DENY, Verdict.DENY, Verdict.ESCALATE, Verdict.ALLOW, Verdict.ABSTAIN)
CODES = (
    ("CHARGEBACK_RISK_BLOCK",),
    ("PAYMENT_INSTRUMENT_HIGH_RISK", "CHARGEBACK_RISK_BLOCK"),
    ("ACCOUNT_TAKEOVER_RISK_BLOCK",),
    ("RATE_LIMIT", "PAYMENT_INSTRUMENT_HIGH_RISK"),
    (),
    ("PII_EXPOSURE",),
    ("CHARGEBACK_RISK_BLOCK", "RATE_LIMIT", "PII_EXPOSURE"),
)
AMOUNTS = (20, 999.99, 1000, 1000.01, 2500, None)
CHARGEBACK = {
    "verdict": Verdict.DENY,
    "reason_codes": ("CHARGEBACK_RISK_BLOCK",),
    "action_type": "refund",
    "amount": Amount(value=2500, currency="USD"),
}
FINDINGS: tuple[tuple[dict[str, str], ...], ...] = (
    (),
    ({"code": "RCE_RISK", "surface": "code_execution"},),
    (
        {"code": "PII_EXPOSURE", "surface": "output", "action": "warn"},
        {"code": "PII_EXPOSURE", "surface": "input", "action": "block"},
    ),
)
QUARTER = (datetime(2026, 10, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def _decision(number: int, moment: datetime) -> DecisionRecord:
    amount = AMOUNTS[number % len(AMOUNTS)]
    version = f"1.{number % 3}.0"
    return make_record(
        number,
        created_at=f"{moment.isoformat(timespec='milliseconds')[:-6]}Z",
        verdict=VERDICTS[number % len(VERDICTS)],
        reason_codes=CODES[number % len(CODES)],
        action_type="purchase" if number % 11 == 0 else "refund",
        amount=None if amount is None else Amount(value=amount, currency="USD"),
        policy=PolicyRef(policy_id="support", policy_version=version, digest="", mode="enforce"),
        enforced=number % 4 != 0,
        tenant="acme" if number % 5 else "Beta 7",
        sealed={"findings": FINDINGS[number % len(FINDINGS)]},
    )


def _decisions(now: datetime) -> Iterator[DecisionRecord]:
    first, after = QUARTER
    recent = [now - timedelta(hours=1 + 2.5 * number) for number in range(150)]
    around = [first - timedelta(days=20) + timedelta(hours=21 * number) for number in range(150)]
    edges = [edge + timedelta(milliseconds=step) for edge in (first, after) for step in (-1, 0, 1)]
    for number, moment in enumerate(sorted([*recent, *around, *edges])):
        made = _decision(number, moment)
        if moment in edges:
            yield msgspec.structs.replace(made, **CHARGEBACK)
        # How long a test takes must not decide whether a decision is a week old.
        elif abs(now - moment - timedelta(days=7)) > timedelta(minutes=10):
            yield made


@pytest.fixture(scope="session")
def now() -> datetime:
    """Return the time of the databases: they run on this machine."""
    with closing(sqlite3.connect(":memory:")) as connection:
        [text] = connection.execute("SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')").fetchone()
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.fixture(scope="session")
def decisions(now: datetime) -> list[DecisionRecord]:
    """Return what both stores hold."""
    return list(_decisions(now))


@pytest.fixture(scope="session")
def sqlite_path(decisions: list[DecisionRecord], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the SQLite store is."""
    path = tmp_path_factory.mktemp("sql") / "records.db"
    with open_store(path, durability="normal") as store:
        store.put_many(decisions)
    return path


@pytest.fixture(scope="session")
def ask_sqlite(sqlite_path: Path) -> Iterator[Ask]:
    """Return the function that asks the SQLite store."""
    with closing(sqlite3.connect(sqlite_path)) as connection:
        yield lambda query: connection.execute(query).fetchall()


@pytest.fixture(scope="session")
def parquet_folder(sqlite_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of Parquet files with the decisions of the SQLite store."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("parquet") / "decisions"
    with open_store(sqlite_path) as store:
        export_parquet(store, folder)
    return folder


@pytest.fixture(scope="session")
def ask_postgres(decisions: list[DecisionRecord], postgres_server: Server) -> Iterator[Ask]:
    """Return the function that asks the PostgreSQL store; nothing that it does stays."""
    url = postgres_server.new_database()
    with open_store(url, durability="normal") as store:
        store.put_many(decisions)

    def ask(query: str) -> Rows:
        cursor = connection.execute(query.encode())
        while cursor.nextset():
            pass
        rows = cursor.fetchall() if cursor.description else []
        connection.rollback()
        return rows

    with closing(psycopg.connect(url)) as connection:
        # Whoever asks may sit anywhere: the answers must not depend on it.
        connection.execute("SET timezone = 'America/Los_Angeles'")
        connection.commit()
        yield ask
    postgres_server.drop(url)
