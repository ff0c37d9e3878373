import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.command_line import Ran, demur
from support.store_records import make_record
from support.support_desk import RISKY, SMALL, decided, setting
from support.webhook_server import SECRET_PATH, hook

from demur.cli.alerts import EXPORT_FORMATS, read_secret
from demur.cli.main import main
from demur.errors import InputError
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


LOG = """\
2027-01-01T10:59:59Z app REFUSED: RCE_RISK: too old
2027-01-01T11:30:00Z app REFUSED: RCE_RISK: one
2027-01-01T11:59:59Z app REFUSED: MADE_UP_CODE: who knows it
"""
NOON = ("--at", "2027-01-01T12:00Z")


@pytest.fixture
def rules(workspace: Path) -> str:
    (workspace / "rules.yaml").write_text(RULES)
    return "rules.yaml"


def check(*words: object) -> Ran:
    return demur("alerts", "check", *words)


def test_a_log_is_checked_and_what_it_cannot_answer_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(LOG)
    ran = check("--log", log, *NOON)

    assert ran.status == 3
    assert "RCE_RISK: 1 in the last hour, over 0" in ran.out
    assert "no registry knows MADE_UP_CODE (1)" in ran.out
    assert ran.out.endswith("a log cannot answer STORAGE_LOST, BLOCKS_DOUBLED\n")


def test_somebody_in_danger_is_an_alert_for_a_quarter_of_an_hour(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("2027-01-01T11:50:00Z app REFUSED: CRISIS_ESCALATION: a person is in danger\n")
    soon, late = (
        json.loads(check("--log", log, "--at", f"2027-01-01T{hour}Z", "--json").out)["alerts"]
        for hour in ("12:00", "12:10")
    )
    states = [
        (one["state"], one["severity"])
        for alerts in (soon, late)
        for one in alerts
        if one["id"] == "PERSON_IN_DANGER"
    ]

    assert states == [("firing", "critical"), ("quiet", "critical")]


def test_the_window_of_a_log_is_exact(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(LOG)
    ran = check("--log", log, "--at", "2027-01-01T11:59:59Z", "--json")

    by_id = {one["id"]: one for one in json.loads(ran.out)["alerts"]}
    assert by_id["CODE_EXECUTION_TRIED"]["value"] == 2
    assert by_id["NEW_UNKNOWN_CODE"]["state"] == "quiet"


def test_several_logs_are_one(tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    for log in logs:
        log.write_text(LOG)
    ran = check("--log", logs[0], "--log", logs[1], *NOON, "--json")

    by_id = {one["id"]: one for one in json.loads(ran.out)["alerts"]}
    assert by_id["CODE_EXECUTION_TRIED"]["value"] == 2


def test_refusals_without_a_time_keep_a_log_from_being_quiet(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("REFUSED: PII_DETECTED: at some time\n")
    ran = check("--log", log, *NOON)
    log.write_text(log.read_text() * 2)

    assert "2 refusals in the log have no time" in check("--log", log, *NOON).out
    assert ran.status == 6
    assert "could not judge: 1 refusal in the log has no time" in ran.out


def test_own_rules_that_a_log_cannot_answer_are_unjudged(rules: str, workspace: Path) -> None:
    (workspace / "app.log").write_text(LOG)
    ran = check("--log", "app.log", "--rules", rules, *NOON)

    assert ran.status == 6
    assert "unjudged[HALF] low: could not judge: the source does not tell it" in ran.out


def test_a_log_counts_classes_by_its_codes_and_says_if_it_is_damaged(workspace: Path) -> None:
    text = RULES.replace("code: CHARGEBACK_RISK_BLOCK, over: 2", "class: HARD_BLOCK, over: 0")
    (workspace / "rules.yaml").write_text(text)
    (workspace / "app.log").write_text(LOG)
    ran = check("--log", "app.log", "--rules", "rules.yaml", *NOON)
    assert "HARD_BLOCK: 1 in the last hour, over 0" in ran.out

    (workspace / "app.log").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x00")
    ran = check("--log", "app.log", *NOON)
    assert (ran.status, "could not be read to its end" in ran.out) == (6, True)


def test_a_refusal_line_quoted_in_a_structured_log_is_not_a_refusal(tmp_path: Path) -> None:
    rows = [
        {"time": "2027-01-01T11:30:00Z", "message": "REFUSED: SECRET_LEAK: the guard said so"},
        {"time": "2027-01-01T11:30:00Z", "message": "user: REFUSED: RCE_RISK: forged"},
    ]
    log = tmp_path / "app.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    ran = check("--log", log, *NOON)

    assert ran.status == 0
    assert "RCE_RISK: 0 in the last hour" in ran.out


def test_a_log_knows_the_codes_of_organisations_in_the_settings(
    workspace: Path, acme_text: Any
) -> None:
    (workspace / "acme.json").write_text(acme_text({"code": "acme.com/LATE"}))
    (workspace / "app.log").write_text("2027-01-01T11:30:00Z REFUSED: acme.com/LATE: x\n")
    assert "no registry knows acme.com/LATE" in check("--log", "app.log", *NOON).out
    setting('registries = ["acme.json"]')
    (workspace / "rules.yaml").write_text(RULES.replace("CHARGEBACK_RISK_BLOCK", "acme.com/LATE"))

    assert "quiet[NEW_UNKNOWN_CODE]" in check("--log", "app.log", *NOON).out
    ran = check("--log", "app.log", "--rules", "rules.yaml", *NOON)
    assert "acme.com/LATE: 1 in the last hour" in ran.out


def test_a_folder_of_logs_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "b.log").write_text(LOG)

    assert "RCE_RISK: 2 in the last hour" in check("--log", tmp_path, *NOON).out


@pytest.mark.parametrize(("name", "status"), [("nowhere.log", 1), ("-", 2)])
def test_a_log_that_cannot_be_read_is_an_error(name: str, status: int) -> None:
    assert check(f"--log={name}").status == status


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


def test_decisions_that_could_not_be_stored_are_counted_from_the_spool(workspace: Path) -> None:
    assert workspace.is_dir()
    for _ in range(3):
        decided(SMALL)
    spooled(9)
    ran = check("--json")

    assert ran.status == 3
    assert states(ran)["STORAGE_LOST"] == "firing"
    assert states(ran)["DECISION_NOT_STORED"] == "firing"


def test_a_lost_store_is_not_quiet_and_the_spool_still_speaks(workspace: Path) -> None:
    (workspace / "demur.db").write_bytes(b"no database at all" * 100)
    spooled(1)
    ran = check("--json")

    assert ran.status == 3
    assert states(ran)["DECISION_NOT_STORED"] == "firing"
    assert states(ran)["CHARGEBACK_BLOCKS"] == "unjudged"
    (workspace / "demur.db.spool.jsonl").unlink()
    ran = check()
    assert ran.status == 6
    assert "could not judge: the store cannot be opened: " in ran.out


def sample(number: int) -> DecisionRecord:
    now = datetime.now(UTC)  # noqa: TID251 - the command asks the clock of this machine
    created = f"{now.isoformat(timespec='milliseconds')[:-6]}Z"
    return make_record(number, tenant="sample", reason_codes=("RCE_RISK",), created_at=created)


def test_sample_decisions_raise_no_alert_unless_they_are_named(workspace: Path) -> None:
    assert workspace.is_dir()
    decided(SMALL)
    with open_store("demur.db") as store:
        store.put(sample(1))
    Spool("demur.db.spool.jsonl").add(sample(2))
    ran = check()

    assert ran.status == 0
    assert ran.out.endswith("; made-up decisions are left out (--tenant sample counts them)\n")
    assert "RCE_RISK: 2 in" in check("--tenant", "sample").out
    assert check("--tenant", "default").out.count("made-up") == 0


def test_real_decisions_are_counted_next_to_sample_ones(workspace: Path) -> None:
    (workspace / "rules.yaml").write_text(RULES)
    for _ in range(3):
        decided(RISKY)
    with open_store("demur.db") as store:
        store.put(sample(1))

    assert "CHARGEBACK_RISK_BLOCK: 3 in" in check("--rules", "rules.yaml").out


def test_spools_of_several_torn_lines_say_how_many(workspace: Path) -> None:
    (workspace / "demur.db.spool.jsonl").write_text("{torn\n{torn\n")

    assert "2 lines cannot be read and are not counted" in check().err


def test_a_torn_or_unreadable_spool_is_reported(workspace: Path) -> None:
    spool = workspace / "demur.db.spool.jsonl"
    spool.write_text("{torn\n")
    ran = check()
    assert (ran.status, "1 line cannot be read and is not" in ran.err) == (0, True)
    spool.unlink()
    spool.mkdir()
    ran = check()
    assert (ran.status, "the spool cannot be read" in ran.out) == (6, True)


def test_settings_without_a_spool_are_fine(workspace: Path) -> None:
    assert workspace.is_dir()
    setting('spool = ""')

    assert check().status == 0


def test_codes_of_organisations_in_the_settings_are_known(workspace: Path, acme_text: Any) -> None:
    (workspace / "acme.json").write_text(acme_text({"code": "acme.com/LATE"}))
    setting('registries = ["acme.json"]')
    (workspace / "rules.yaml").write_text(RULES.replace("CHARGEBACK_RISK_BLOCK", "acme.com/LATE"))
    now = datetime.now(UTC)  # noqa: TID251 - the command asks the clock of this machine
    with open_store("demur.db") as store:
        for number in range(3):
            created = f"{now.isoformat(timespec='milliseconds')[:-6]}Z"
            store.put(make_record(number, reason_codes=("acme.com/LATE",), created_at=created))

    assert states(check("--rules", "rules.yaml", "--json"))["CHARGEBACKS"] == "firing"
    assert states(check("--json"))["NEW_UNKNOWN_CODE"] == "quiet"
    assert states(check("--store", "demur.db", "--json"))["NEW_UNKNOWN_CODE"] == "quiet"


def test_a_quiet_store_exits_with_0(workspace: Path) -> None:
    assert workspace.is_dir()
    decided(SMALL)
    ran = check()

    assert ran.status == 0
    assert "8 quiet at 20" in ran.out


def test_a_firing_alert_exits_with_3_and_shows_help(rules: str) -> None:
    for _ in range(3):
        decided(RISKY)
    for _ in range(3):
        decided(SMALL)
    ran = check("--rules", rules)

    assert ran.status == 3
    assert ran.out.startswith(
        "firing[CHARGEBACKS] critical: CHARGEBACK_RISK_BLOCK: 3 in the last hour, over 2\n"
        "  help: look at the model\n"
        "quiet[HALF] low: DENY: 50 % of 6 decisions in the last hour, not over 50 %\n"
    )
    assert states(check("--rules", rules, "--json")) == {"CHARGEBACKS": "firing", "HALF": "quiet"}


def test_a_moment_in_the_past_can_be_checked(rules: str) -> None:
    for _ in range(3):
        decided(RISKY)

    assert check("--rules", rules, "--at", "2h").status == 0


def test_tenants_are_checked_apart(rules: str) -> None:
    for _ in range(3):
        decided(RISKY)

    assert check("--rules", rules, "--tenant", "nobody").status == 0
    assert check("--rules", rules, "--tenant", "default").status == 3


def test_a_store_can_be_named_without_settings(rules: str) -> None:
    for _ in range(3):
        decided(RISKY)
    Path("demur.toml").unlink()

    assert check("--rules", rules, "--store", "demur.db").status == 3
    # The store alone is enough: the settings have a default.
    assert check("--rules", rules).status == 3
    ran = check("--store", "none.db")
    assert (ran.status, Path("none.db").exists()) == (1, False)


def test_the_help_says_how_it_exits(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["alerts", "check", "--help"])

    assert "3 firing; 6 unjudged" in " ".join(capsys.readouterr().out.split())


def test_a_check_as_of_then_knows_nothing_of_what_came_later(rules: str) -> None:
    with open_store("demur.db") as store:
        for number in range(3):
            created = f"2027-01-01T10:39:0{number}.000Z"
            codes = ("CHARGEBACK_RISK_BLOCK",)
            store.put(make_record(number, reason_codes=codes, created_at=created))

    assert check("--rules", rules, "--at", "2027-01-01T10:30Z").status == 0
    assert check("--rules", rules, "--at", "2027-01-01T10:40Z").status == 3


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_each_form_is_written_and_printed_alike(form: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    ran = demur("alerts", "export", "--to", form, "--out", out)
    printed = demur("alerts", "export", "--to", form)

    assert ran.status == printed.status == 0
    first, *_ = EXPORT_FORMATS[form]
    assert (out / first.name).read_text(encoding="utf-8") == printed.out
    assert {path.name for path in out.iterdir()} == {one.name for one in EXPORT_FORMATS[form]}
    assert ran.out == "".join(f"wrote {out / one.name}\n" for one in EXPORT_FORMATS[form])


def test_exported_alerts_are_machine_readable() -> None:
    assert yaml.safe_load(demur("alerts", "export", "--to", "prometheus").out)["groups"]
    assert json.loads(demur("alerts", "export", "--to", "grafana").out)["panels"]
    assert json.loads(demur("alerts", "export", "--to", "datadog").out)[0]["query"]


def test_json_holds_the_files_or_their_names(tmp_path: Path) -> None:
    files = json.loads(demur("alerts", "export", "--to", "datadog", "--json").out)
    named = json.loads(
        demur("alerts", "export", "--to", "datadog", "--json", "--out", tmp_path).out
    )

    assert set(files) == {"demur-monitors.json", "openmetrics.yaml"}
    assert named == {"written": [str(tmp_path / name) for name in files]}


def test_an_export_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    for out in (tmp_path / "file" / "x", tmp_path / "a\0b"):
        ran = demur("alerts", "export", "--to", "grafana", "--out", out)
        assert ran.status == 1
        assert "cannot create the folder" in ran.err


def test_a_secret_can_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text("https://hooks.example/x\n")

    assert read_secret(f"@{path}") == "https://hooks.example/x"
    assert read_secret("https://hooks.example/x") == "https://hooks.example/x"
    path.write_bytes(b"\xff")
    for broken in (path, tmp_path / "none"):
        with pytest.raises(InputError, match="cannot read the secret"):
            read_secret(f"@{broken}")


def firing(tmp_path: Path, *words: object) -> Ran:
    (tmp_path / "app.log").write_text(LOG)
    return check("--log", tmp_path / "app.log", *NOON, "--retries", 0, *words)


def test_a_webhook_is_notified_in_its_format(tmp_path: Path) -> None:
    with hook() as server:
        for form in ("json", "slack"):
            assert firing(tmp_path, "--webhook", server.url, "--format", form).status == 3

    plain, slack = (json.loads(body) for _, body in server.deliveries)
    assert [one["id"] for one in plain["alerts"]] == ["CODE_EXECUTION_TRIED", "NEW_UNKNOWN_CODE"]
    assert slack["text"] == "demur: firing: CODE_EXECUTION_TRIED, NEW_UNKNOWN_CODE"


def test_pagerduty_gets_an_event_for_each_rule_and_the_key_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("R0UTE\n")
    words = ("--format", "pagerduty", "--routing-key", f"@{tmp_path / 'key'}", "--origin", "prod")
    with hook() as server:
        assert firing(tmp_path, "--webhook", server.url, *words).status == 3

    events = [json.loads(body) for _, body in server.deliveries]
    assert {event["routing_key"] for event in events} == {"R0UTE"}
    assert [event["dedup_key"] for event in events] == [
        "demur/prod/CODE_EXECUTION_TRIED",
        "demur/prod/NEW_UNKNOWN_CODE",
    ]


def test_a_webhook_that_fails_is_an_error_and_nothing_is_lost(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with hook(500) as server:
        ran = firing(tmp_path, "--webhook", server.url, "--state", state)
        assert ran.status == 1
        assert "firing[CODE_EXECUTION_TRIED]" in ran.out
        assert "the webhook answered 500" in ran.err
        assert SECRET_PATH not in ran.out + ran.err
        assert firing(tmp_path, "--webhook", server.url, "--state", state).status == 3

    assert len(server.deliveries) == 2


def test_a_webhook_is_notified_once_within_the_cooldown_and_once_at_the_end(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with hook() as server:
        words = ("--webhook", server.url, "--state", state)
        assert firing(tmp_path, *words).status == 3
        assert firing(tmp_path, *words).status == 3
        assert len(server.deliveries) == 1
        later = ("--at", "2027-01-02T12:00Z", *words)
        for _ in range(2):
            assert check("--log", tmp_path / "app.log", *later).status == 0

    [_, resolved] = [json.loads(body) for _, body in server.deliveries]
    assert resolved["alerts"] == []
    assert [one["id"] for one in resolved["resolved"]] == [
        "CODE_EXECUTION_TRIED",
        "NEW_UNKNOWN_CODE",
    ]


def test_one_event_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    words = ("--format", "pagerduty", "--routing-key", "k", "--state", state)
    with hook(500) as server:
        assert firing(tmp_path, "--webhook", server.url, *words).status == 1
        assert firing(tmp_path, "--webhook", server.url, *words).status == 3

    keys = [json.loads(body)["dedup_key"] for _, body in server.deliveries]
    assert keys == ["demur/CODE_EXECUTION_TRIED", "demur/NEW_UNKNOWN_CODE", keys[0]]


def test_a_quiet_check_tells_nobody(workspace: Path) -> None:
    assert workspace.is_dir()
    with hook() as server:
        assert check("--webhook", server.url).status == 0

    assert server.deliveries == []


def test_a_state_that_cannot_be_used_is_an_error_before_anything_is_sent(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with hook() as server:
        state.write_text("{}")
        assert firing(tmp_path, "--webhook", server.url, "--state", state).status == 1
        assert (
            "cannot read the state"
            in firing(tmp_path, "--webhook", server.url, "--state", tmp_path).err
        )
        assert server.deliveries == []
        nowhere = tmp_path / "no" / "folder.json"
        ran = firing(tmp_path, "--webhook", server.url, "--state", nowhere)
        assert (ran.status, "cannot write the state" in ran.err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("--log", "x", "--store", "y"),
        ("--log", "x", "--config", "y"),
        ("--log", "x", "--tenant", "y"),
        ("--store", "x", "--config", "y"),
        ("--state", "x"),
        ("--routing-key", "x"),
        ("--webhook", "https://a.example/", "--format", "pagerduty"),
        ("--webhook", "https://a.example/", "--routing-key", "x"),
        ("--webhook", "ftp://a.example/"),
        ("--timeout", "0"),
        ("--timeout", "nan"),
        ("--retries", "-1"),
        ("--at", "soon"),
    ],
)
def test_options_that_make_no_sense_together_are_an_error(
    words: tuple[str, ...], workspace: Path
) -> None:
    assert workspace.is_dir()
    assert check(*words).status == 2


@pytest.mark.usefixtures("workspace")
def test_a_secret_that_cannot_be_read_is_an_error() -> None:
    assert check("--webhook", "@nowhere").status == 1


def test_a_second_unknown_code_is_notified_within_the_cooldown_of_the_first(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with hook() as server:
        words = ("--webhook", server.url, "--state", state)
        assert firing(tmp_path, *words).status == 3
        with (tmp_path / "app.log").open("a") as log:
            log.write("2027-01-01T11:59:59Z app REFUSED: ANOTHER_ONE: x\n")
        for _ in range(2):
            check("--log", tmp_path / "app.log", *NOON, *words)

    [_, again] = [json.loads(body) for _, body in server.deliveries]
    [alert] = again["alerts"]
    assert alert["message"].startswith("new since the last alert: ANOTHER_ONE; no registry")
