"""`demur audit report`: the same tables as text, JSON, CSV and a page for printing."""

import csv
import json
import re
from pathlib import Path

import pytest
from support.command_line import demur
from support.support_desk import LARGE, RISKY, SMALL, changed_store, decided

pytestmark = pytest.mark.usefixtures("workspace")

AUTHOR = ("--by", "dpo", "--reason", "request 12")
PERIOD = ("audit", "report", "--from", "2000-01-01", "--to", "2100-01-01")


@pytest.fixture
def three() -> list[str]:
    return [decided(name)["decision_id"] for name in (SMALL, LARGE, RISKY)]


def test_a_report_prints_what_happened(three: list[str]) -> None:
    demur("audit", "erase", "--subject", "agent:billing", "--yes", *AUTHOR)
    ran = demur(*PERIOD)

    assert (len(three), ran.status, ran.err) == (3, 0, "")
    lines = ran.out.splitlines()
    assert lines[:2] == [
        "Decisions from 2000-01-01 to 2100-01-01 (UTC)",
        "The chains are valid.",
    ]
    assert re.search(r"^decisions +3$", ran.out, re.MULTILINE)
    assert re.search(r"default +4 +erase +3 +dpo +request 12$", ran.out, re.MULTILINE)
    assert "verified from 1 to 4" in ran.out
    # Tables without rows are left out.
    assert "Overrides" not in ran.out


def test_files_and_json_hold_the_same(three: list[str]) -> None:
    assert len(three) == 3
    document = json.loads(demur(*PERIOD, "--json").out)
    wrote = demur(*PERIOD, "--csv", "report.csv")
    page = demur(*PERIOD, "--html", "report.html")

    assert wrote.out == "report.csv: Decisions from 2000-01-01 to 2100-01-01 (UTC)\n"
    assert page.status == 0
    assert document["tables"]["summary"][0] == {"what": "decisions", "count": 3}
    rows = list(csv.reader(Path("report.csv").read_text(encoding="utf-8").splitlines()))
    assert ["decisions", "3"] in rows
    html = Path("report.html").read_text(encoding="utf-8")
    assert "<h1>Decisions from 2000-01-01 to 2100-01-01 (UTC)</h1>" in html
    assert "<script" not in html
    demur(*PERIOD, "--html", "again.html")
    assert Path("again.html").read_bytes() == Path("report.html").read_bytes()


def test_a_report_is_on_one_tenant_or_all_but_made_up_decisions(three: list[str]) -> None:
    decided(SMALL, "--tenant", "acme")
    decided(SMALL, "--tenant", "sample")

    assert len(three) == 3
    assert json.loads(demur(*PERIOD, "--json").out)["tenants"] == ["acme", "default"]
    one = json.loads(demur(*PERIOD, "--json", "--tenant", "sample").out)
    assert (one["tenants"], one["tables"]["summary"][0]["count"]) == (["sample"], 1)
    unknown = demur(*PERIOD, "--tenant", "nobody")
    assert unknown.status == 1
    assert "there is no tenant `nobody`" in unknown.err


def test_a_broken_chain_is_in_the_report_and_in_the_status(three: list[str]) -> None:
    with changed_store() as connection:
        connection.execute(
            "UPDATE decision_records SET amount_value = 9 WHERE decision_id = ?", (three[1],)
        )
    ran = demur(*PERIOD)

    assert ran.status == 1
    assert "A chain is broken." in ran.out
    assert "broken at 2: column differs" in ran.out


def test_a_report_checks_anchors(three: list[str]) -> None:
    words = ("--holder", "user:auditor", "--algorithm", "hmac-sha256")
    demur("grant", "keygen", "audit", *words)
    demur("audit", "anchor", "--out", "anchors.jsonl", "--key", "audit.key.json")
    anchored = (*PERIOD, "--anchors", "anchors.jsonl", "--keys", "audit.trusted.json", "--json")
    [anchor] = json.loads(demur(*anchored).out)["tables"]["anchors"]

    assert len(three) == 3
    assert (anchor["signed_by"], anchor["heads"]) == ("user:auditor", 1)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--from", "today", "--to", "yesterday"), "--from is not before --to"),
        (("--from", "soon"), "`soon` is not a time"),
        (("--from", "today", "--keys", "x.json"), "--keys are those of anchors"),
        (("--from", "today", "--html", "a", "--csv", "b"), "not allowed with"),
        ((), "--from"),
    ],
)
def test_a_wrong_use_is_refused(three: list[str], words: tuple[str, ...], problem: str) -> None:
    ran = demur("audit", "report", *words)

    assert (len(three), ran.status) == (3, 2)
    assert problem in ran.err
