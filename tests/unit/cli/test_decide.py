import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from commandline import demur
from desk import LARGE, RISKY, SMALL, UNCLEAR, ask, decided, newest, set_policy, setting, signer

pytestmark = pytest.mark.usefixtures("desk")


def lines(*names: str) -> str:
    texts = (Path(name).read_text(encoding="utf-8") for name in names)
    return "\n".join(json.dumps(json.loads(text)) for text in texts)


def test_a_decision_reads_from_what_to_do_to_where_it_is_kept() -> None:
    ran = demur("decide", LARGE)
    *shown, last = ran.out.splitlines()

    assert (ran.status, ran.err) == (4, "")
    assert shown == [
        "NEED_CONTEXT (ESCALATE, WORKFLOW_BLOCK)",
        "  why  The refund is larger than the agent may pay out without a person.",
        "  now  Supply what is missing: approval.",
        "  then Send it as a continuation of this request. A grant of approval lifts it.",
        "  next request_approval",
        "  code REFUND_OVER_ESCALATION_LIMIT",
        "  rule R_LARGE_REFUND (ESCALATIONS)",
    ]
    assert last == f"  id   {newest()['decision_id']} (stored, tenant default)"


@pytest.mark.parametrize(("name", "status"), [(SMALL, 0), (LARGE, 4), (RISKY, 3), (UNCLEAR, 6)])
def test_the_exit_status_tells_what_was_decided(name: str, status: int) -> None:
    assert demur("decide", name).status == status
    assert demur("decide", name, "--json").status == status


def test_what_could_not_be_judged_names_the_fact_and_the_rule() -> None:
    out = demur("decide", UNCLEAR).out

    assert "NEED_CONTEXT (ABSTAIN: could not judge, WORKFLOW_BLOCK)\n" in out
    assert "  bad  evidence.chargeback_risk cannot be used by R_CHARGEBACK\n" in out


def test_json_is_the_whole_record() -> None:
    record = decided(stdin=Path(LARGE).read_text(encoding="utf-8"))

    assert record == newest()
    assert record["request"] == json.loads(Path(LARGE).read_text(encoding="utf-8"))
    assert record["reason_codes"] == ["REFUND_OVER_ESCALATION_LIMIT"]


def test_a_record_goes_to_a_file_as_well() -> None:
    ran = demur("decide", SMALL, "--out", "record.json")

    assert ran.out.startswith("ALLOW_EXECUTE (ALLOW, nothing refuses)\n")
    assert json.loads(Path("record.json").read_text(encoding="utf-8")) == newest()


def test_a_dry_run_decides_and_stores_nothing() -> None:
    ran = demur("decide", RISKY, "--dry-run")

    assert ran.status == 3
    assert ran.out.endswith("  id   none: a dry run stores nothing\n")
    assert demur("show").out == "no decisions\n"


def test_a_dry_run_knows_what_was_learned_and_what_was_asked_before() -> None:
    Path("twice.json").write_text(ask("store_credit", request_id="r-1"), encoding="utf-8")
    first = decided("twice.json")
    decided(SMALL)
    demur("learn", "last", "--outcome", "failure")

    assert decided(SMALL, "--dry-run")["reason_codes"] == ["FAILURE_MEMORY_SIMILAR_BLOCK"]
    assert decided("twice.json", "--dry-run") == first
    other = decided("--dry-run", stdin=ask("close_account", request_id="r-1"))
    assert other["reason_codes"] == ["IDEMPOTENCY_CONFLICT"]


def test_a_dry_run_makes_no_store_where_there_is_none() -> None:
    Path("demur.db").unlink()

    assert demur("decide", RISKY, "--dry-run").status == 3
    assert not Path("demur.db").exists()


def test_many_dry_decisions_are_not_stored_either() -> None:
    assert demur("decide", "--dry-run", stdin=lines(SMALL, LARGE)).status == 4
    assert demur("show").out == "no decisions\n"


@pytest.mark.parametrize("form", ["lines", "list"])
def test_many_requests_are_decided_together_and_the_strictest_status_wins(form: str) -> None:
    text = lines(SMALL, UNCLEAR, RISKY, LARGE)
    ran = demur("decide", stdin=text if form == "lines" else f"[{text.replace(chr(10), ',')}]")
    head, *rows, count = ran.out.splitlines()

    assert ran.status == 3
    assert head.split() == ["DECISION", "VERDICT", "OUTPUT", "ACTION", "CODES"]
    assert [row.split()[1] for row in rows] == ["ALLOW", "ABSTAIN", "DENY", "ESCALATE"]
    assert count == "4 decisions: 1 ALLOW, 1 ESCALATE, 1 ABSTAIN, 1 DENY"


@pytest.mark.parametrize(
    ("names", "status"), [((SMALL, SMALL), 0), ((SMALL, LARGE), 4), ((LARGE, UNCLEAR, SMALL), 6)]
)
def test_of_many_the_strictest_counts(names: tuple[str, ...], status: int) -> None:
    assert demur("decide", stdin=lines(*names)).status == status


def test_many_records_come_as_json_one_a_line() -> None:
    ran = demur("decide", "--json", "--out", "all.jsonl", stdin=lines(SMALL, LARGE))
    verdicts = [json.loads(line)["verdict"] for line in ran.out.splitlines()]

    assert verdicts == ["ALLOW", "ESCALATE"]
    assert Path("all.jsonl").read_text(encoding="utf-8") == ran.out


def test_an_empty_list_is_no_decision() -> None:
    assert demur("decide", stdin="[]") == (0, "0 decisions\n", "")


def test_one_bad_request_among_many_is_named_by_its_line_and_none_is_decided() -> None:
    ran = demur("decide", stdin=f'{lines(SMALL)}\n\n{{"action": {{"type": 3}}}}\n')

    assert ran.status == 1
    assert ran.err == "error: standard input:3: action.type: expected `str`, got `int`\n"
    assert demur("show").out == "no decisions\n"


@pytest.mark.parametrize("option", ["--finding", "--accept", "--continues", "--grant"])
def test_what_belongs_to_one_request_cannot_go_with_many(option: str) -> None:
    ran = demur("decide", option, "RCE_RISK", stdin=lines(SMALL, LARGE))

    assert ran.status == 1
    assert f"{option} applies to one request, and the file has 2" in ran.err


def test_findings_come_in_beside_the_request() -> None:
    record = decided(SMALL, "--finding", "UNVERIFIED_TOOL", "--finding", "RCE_RISK:tool_result")

    assert record["reason_codes"] == ["UNVERIFIED_TOOL", "RCE_RISK"]
    assert [finding["surface"] for finding in record["findings"]] == ["tool_call", "tool_result"]


def test_a_code_without_surfaces_was_seen_in_the_input() -> None:
    [finding] = decided(SMALL, "--finding", "MODEL_DECLINED")["findings"]

    assert finding["surface"] in {"input", "model", "output"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--finding", "RCE_RIS"], "did you mean `RCE_RISK`?"),
        (["--finding", "RCE_RISK:nowhere"], "unknown surface `nowhere`"),
        (["--grant", "gone.json"], "gone.json: cannot read: no such file"),
        (["--grant", SMALL], f"{SMALL}: not a grant: "),
        (["--continues", "nothing"], "there is no decision `nothing`"),
        (["--config", "gone.toml"], "gone.toml: cannot read the settings: no such file"),
    ],
)
def test_bad_words_say_what_is_meant(words: list[str], problem: str) -> None:
    ran = demur("decide", SMALL, *words)

    assert ran.status == 1
    assert problem in ran.err


def test_a_constraint_is_offered_and_accepted() -> None:
    offered = demur("decide", stdin=ask("delete_tickets"))
    ran = demur("decide", "--accept", "move them to the archive", stdin=ask("delete_tickets"))

    assert offered.status == 4
    assert (
        "  now  These constraints would make it possible: move them to the archive." in offered.out
    )
    assert ran.status == 5
    assert "  keep move them to the archive (DESTRUCTIVE_ACTION)\n" in ran.out


def test_a_grant_lifts_what_it_names() -> None:
    key = signer()
    setting('keys = "mary.trusted.json"')
    words = ("--to", "agent:billing", "--scope", "action=refund", "--id", "g-1")
    grant = demur("grant", "create", "approval", "--key", key, *words)
    Path("grant.json").write_text(grant.out, encoding="utf-8")
    ran = demur("decide", LARGE, "--grant", "grant.json")

    assert ran.status == 0
    assert "  lift REFUND_OVER_ESCALATION_LIMIT by user:mary (g-1)\n" in ran.out


def test_a_grant_that_does_not_count_is_shown_with_the_reason() -> None:
    key = signer()
    words = ("--to", "agent:billing", "--scope", "action=refund", "--id", "g-1")
    grant = demur("grant", "create", "approval", "--key", key, *words)
    Path("grant.json").write_text(grant.out, encoding="utf-8")
    ran = demur("decide", LARGE, "--grant", "grant.json")

    assert ran.status == 4
    assert "  void grant g-1: unknown key\n" in ran.out


def test_a_request_can_continue_an_earlier_one() -> None:
    first = decided(LARGE)
    again = decided(LARGE, "--continues", "last")

    assert (again["continues"], again["attempt"]) == (first["decision_id"], 2)


def test_without_a_store_there_is_nothing_to_continue() -> None:
    Path("demur.toml").write_text('store = ""\n', encoding="utf-8")
    ran = demur("decide", LARGE, "--continues", "last")

    assert ran.status == 1
    assert "--continues needs a store" in ran.err


def test_continuing_does_not_hide_that_the_request_is_none() -> None:
    decided(LARGE)
    ran = demur("decide", "--continues", "last", stdin='"refund"')

    assert ran.err == "error: standard input: a request must be a mapping, not `str`\n"


def test_without_a_store_it_is_decided_and_said_that_nothing_is_kept() -> None:
    Path("demur.toml").write_text('store = ""\n', encoding="utf-8")
    ran = demur("decide", LARGE)

    assert ran.status == 4
    assert ran.out.endswith(" (not stored: the settings name no store)\n")


def test_the_tenant_of_the_command_is_the_operator_s() -> None:
    assert decided(SMALL, "--tenant", "acme")["tenant"] == "acme"
    ran = demur("decide", "--tenant", "other", stdin=ask("refund", tenant={"id": "acme"}))

    assert ran.err == (
        "error: standard input: tenant.id: the request is for `acme`, not for `other`\n"
    )


def test_in_advisory_mode_nothing_binds() -> None:
    set_policy("mode: enforce", "mode: advisory")
    ran = demur("decide", RISKY)

    assert ran.status == 0
    assert ran.out.startswith("REFUSE_WITH_PATH (DENY, HARD_BLOCK)\n")
    assert ran.out.endswith(
        "note: advisory mode: the decision is recorded and does not bind; the action may run\n"
    )
    assert demur("decide", stdin=lines(RISKY, LARGE)).status == 0


def test_a_rule_in_shadow_is_shown_as_such() -> None:
    set_policy("  - id: R_CHARGEBACK\n", "  - id: R_CHARGEBACK\n    shadow: true\n")

    assert "  rule R_CHARGEBACK (shadow: does not count)\n" in demur("decide", RISKY).out


def test_what_cannot_be_stored_is_refused_and_spooled(caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect("demur.db")) as database:
        database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON decision_records "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    ran = demur("decide", SMALL)

    assert ran.status == 6
    assert "  code STORAGE_UNAVAILABLE\n" in ran.out
    assert ran.out.endswith(" (not stored)\n")
    assert "could not be stored" in caplog.text
    assert Path("demur.db.spool.jsonl").is_file()


def test_a_new_store_is_made_for_its_owner_alone() -> None:
    Path("demur.db").unlink()
    decided(SMALL)

    assert Path("demur.db").stat().st_mode & 0o777 == 0o600


def test_an_unknown_field_says_where_it_belongs() -> None:
    ran = demur("decide", stdin=ask("refund", grants=[]))

    assert ran.err == (
        "error: standard input: grants: a request has no field `grants`\n"
        "  help: pass grants with --grant FILE\n"
    )


def test_what_was_decided_is_shown_even_if_the_file_cannot_be_written() -> None:
    ran = demur("decide", SMALL, "--out", "gone/record.json")

    assert ran.status == 1
    assert ran.out.startswith("ALLOW_EXECUTE ")
    assert "gone/record.json: cannot write: no such file or directory" in ran.err
