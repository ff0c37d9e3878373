import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from commandline import Ran, demur
from desk import RISKY, SMALL, decided, setting
from store_records import make_record

from demur.model.record import DecisionRecord
from demur.store.opening import open_store
from demur.store.spool import Spool

RULES = """
schema_version: alert_rules.v1
rules:
  - {id: CHARGEBACKS, kind: count, code: CHARGEBACK_RISK_BLOCK, over: 2, window: 1h,
     severity: critical, cooldown: 1h, description: too many, runbook: look at the model}
  - {id: HALF, kind: share, verdict: DENY, over_percent: 50, window: 1h, severity: low,
     description: d}
"""


def check(*words: object) -> Ran:
    return demur("alerts", "check", *words)


def states(ran: Ran) -> dict[str, str]:
    return {one["id"]: one["state"] for one in json.loads(ran.out)["alerts"]}


def spooled(number: int) -> None:
    now = datetime.now(UTC)  # noqa: TID251 - the command asks the clock of this machine
    for turn in range(number):
        moment = (now - timedelta(seconds=turn)).isoformat(timespec="milliseconds")
        record = make_record(
            turn + 1, reason_codes=("STORAGE_UNAVAILABLE",), created_at=f"{moment[:-6]}Z"
        )
        Spool("demur.db.spool.jsonl").add(record)


def test_decisions_that_could_not_be_stored_are_counted_from_the_spool(desk: Path) -> None:
    assert desk.is_dir()
    for _ in range(3):
        decided(SMALL)
    spooled(9)
    ran = check("--json")

    assert ran.status == 3
    assert states(ran)["STORAGE_LOST"] == "firing"
    assert states(ran)["DECISION_NOT_STORED"] == "firing"


def test_a_lost_store_is_not_quiet_and_the_spool_still_speaks(desk: Path) -> None:
    (desk / "demur.db").write_bytes(b"no database at all" * 100)
    spooled(1)
    ran = check("--json")

    assert ran.status == 3
    assert states(ran)["DECISION_NOT_STORED"] == "firing"
    assert states(ran)["CHARGEBACK_BLOCKS"] == "unjudged"
    (desk / "demur.db.spool.jsonl").unlink()
    ran = check()
    assert ran.status == 6
    assert "could not judge: the store cannot be opened: " in ran.out


def sample(number: int) -> DecisionRecord:
    now = datetime.now(UTC)  # noqa: TID251 - the command asks the clock of this machine
    created = f"{now.isoformat(timespec='milliseconds')[:-6]}Z"
    return make_record(number, tenant="sample", reason_codes=("RCE_RISK",), created_at=created)


def test_made_up_decisions_wake_nobody_unless_they_are_named(desk: Path) -> None:
    assert desk.is_dir()
    decided(SMALL)
    with open_store("demur.db") as store:
        store.put(sample(1))
    Spool("demur.db.spool.jsonl").add(sample(2))
    ran = check()

    assert ran.status == 0
    assert ran.out.endswith("; made-up decisions are left out (--tenant sample counts them)\n")
    assert "RCE_RISK: 2 in" in check("--tenant", "sample").out
    assert check("--tenant", "default").out.count("made-up") == 0


def test_real_decisions_are_counted_beside_made_up_ones(desk: Path) -> None:
    (desk / "rules.yaml").write_text(RULES)
    for _ in range(3):
        decided(RISKY)
    with open_store("demur.db") as store:
        store.put(sample(1))

    assert "CHARGEBACK_RISK_BLOCK: 3 in" in check("--rules", "rules.yaml").out


def test_spools_of_several_torn_lines_say_how_many(desk: Path) -> None:
    (desk / "demur.db.spool.jsonl").write_text("{torn\n{torn\n")

    assert "2 lines cannot be read and are not counted" in check().err


def test_a_spool_that_is_torn_or_cannot_be_read_is_told_of(desk: Path) -> None:
    spool = desk / "demur.db.spool.jsonl"
    spool.write_text("{torn\n")
    ran = check()
    assert (ran.status, "1 line cannot be read and is not" in ran.err) == (0, True)
    spool.unlink()
    spool.mkdir()
    ran = check()
    assert (ran.status, "the spool cannot be read" in ran.out) == (6, True)


def test_settings_without_a_spool_are_fine(desk: Path) -> None:
    assert desk.is_dir()
    setting('spool = ""')

    assert check().status == 0


def test_codes_of_organisations_in_the_settings_are_known(desk: Path, acme_text: Any) -> None:
    (desk / "acme.json").write_text(acme_text({"code": "acme.com/LATE"}))
    setting('registries = ["acme.json"]')
    (desk / "rules.yaml").write_text(RULES.replace("CHARGEBACK_RISK_BLOCK", "acme.com/LATE"))
    now = datetime.now(UTC)  # noqa: TID251 - the command asks the clock of this machine
    with open_store("demur.db") as store:
        for number in range(3):
            created = f"{now.isoformat(timespec='milliseconds')[:-6]}Z"
            store.put(make_record(number, reason_codes=("acme.com/LATE",), created_at=created))

    assert states(check("--rules", "rules.yaml", "--json"))["CHARGEBACKS"] == "firing"
    assert states(check("--json"))["NEW_UNKNOWN_CODE"] == "quiet"
    assert states(check("--store", "demur.db", "--json"))["NEW_UNKNOWN_CODE"] == "quiet"
