"""The questions people ask in SQL, as they write them, get the answers that counting gives."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from demur.codes.vocabulary import Verdict
from demur.model.record import DecisionRecord

Ask = Callable[[str], list[tuple[Any, ...]]]

TOP_REASONS = """
    SELECT reason_code, COUNT(*) AS count,
           COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS percentage
    FROM decision_reasons
    WHERE verdict = 'DENY' AND created_at > {week_ago}
    GROUP BY reason_code ORDER BY count DESC, reason_code
"""
CHARGEBACKS = """
    SELECT COUNT(*) FROM decision_records
    WHERE verdict = 'DENY' AND action_type = 'refund' AND amount_value > 1000 AND {has_code}
      AND created_at >= '2026-10-01{midnight}' AND created_at < '2027-01-01{midnight}'
"""
CHARGEBACK_REASONS = """
    SELECT COUNT(*) FROM decision_reasons
    WHERE verdict = 'DENY' AND action_type = 'refund' AND amount_value > 1000
      AND reason_code = 'CHARGEBACK_RISK_BLOCK'
      AND created_at >= '2026-10-01{midnight}' AND created_at < '2027-01-01{midnight}'
"""


@pytest.fixture
def top_reasons(decisions: list[DecisionRecord], now: datetime) -> list[Any]:
    week_ago = now - timedelta(days=7)
    counted = Counter(
        code
        for one in decisions
        if one.verdict is Verdict.DENY and datetime.fromisoformat(one.created_at) > week_ago
        for code in one.reason_codes
    )
    total = counted.total()
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    assert len(ordered) > 3
    return [(code, count, pytest.approx(100 * count / total)) for code, count in ordered]


@pytest.fixture
def chargebacks(decisions: list[DecisionRecord]) -> int:
    found = [
        one
        for one in decisions
        if one.verdict is Verdict.DENY
        and one.action_type == "refund"
        and one.amount is not None
        and one.amount.value is not None
        and one.amount.value > 1000
        and "CHARGEBACK_RISK_BLOCK" in one.reason_codes
        and "2026-10" <= one.created_at < "2027"
    ]
    # Some stand at the very edges, so that a shifted hour would be seen.
    times = {one.created_at for one in found}
    assert {"2026-10-01T00:00:00.000Z", "2026-12-31T23:59:59.999Z"} <= times
    return len(found)


def floats(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(code, count, float(share)) for code, count, share in rows]


def test_top_reasons_of_a_week_on_sqlite(ask_sqlite: Ask, top_reasons: list[Any]) -> None:
    week_ago = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-7 days')"

    assert floats(ask_sqlite(TOP_REASONS.format(week_ago=week_ago))) == top_reasons


def test_top_reasons_of_a_week_on_postgresql(ask_postgres: Ask, top_reasons: list[Any]) -> None:
    week_ago = "NOW() - INTERVAL '7 days'"

    assert floats(ask_postgres(TOP_REASONS.format(week_ago=week_ago))) == top_reasons


def test_a_quarters_chargebacks_on_sqlite(ask_sqlite: Ask, chargebacks: int) -> None:
    has_code = (
        "EXISTS (SELECT 1 FROM json_each(reason_codes) WHERE value = 'CHARGEBACK_RISK_BLOCK')"
    )

    assert ask_sqlite(CHARGEBACKS.format(has_code=has_code, midnight="")) == [(chargebacks,)]
    assert ask_sqlite(CHARGEBACK_REASONS.format(midnight="")) == [(chargebacks,)]


def test_a_quarters_chargebacks_on_postgresql(ask_postgres: Ask, chargebacks: int) -> None:
    has_code = "'CHARGEBACK_RISK_BLOCK' = ANY(reason_codes)"
    utc = " 00:00+00"

    assert ask_postgres(CHARGEBACKS.format(has_code=has_code, midnight=utc)) == [(chargebacks,)]
    assert ask_postgres(CHARGEBACK_REASONS.format(midnight=utc)) == [(chargebacks,)]


def test_both_stores_have_the_same_columns(ask_sqlite: Ask, ask_postgres: Ask) -> None:
    tables = ask_sqlite(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'search_index%'"
    )
    for (table,) in tables:
        here = ask_sqlite(f"SELECT name FROM pragma_table_info('{table}')")  # noqa: S608 - names from the schema
        there = ask_postgres(
            "SELECT column_name FROM information_schema.columns "  # noqa: S608 - names from the schema
            f"WHERE table_name = '{table}' ORDER BY ordinal_position"
        )
        assert here == there, table
    assert len(tables) >= 10
