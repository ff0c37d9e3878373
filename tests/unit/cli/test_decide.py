import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.command_line import Ran, demur
from support.support_desk import (
    LARGE,
    RISKY,
    SMALL,
    UNCLEAR,
    ask,
    changed_store,
    decided,
    newest,
    set_policy,
    setting,
    signer,
)

pytestmark = pytest.mark.usefixtures("workspace")


def lines(*names: str) -> str:
    texts = (Path(name).read_text(encoding="utf-8") for name in names)
    return "\n".join(json.dumps(json.loads(text)) for text in texts)


def test_a_decision_reads_from_what_to_do_to_where_it_is_kept() -> None:
    ran = demur("decide", LARGE)
    *shown, place, wait = ran.out.splitlines()
    decision_id = newest()["decision_id"]

    assert (ran.status, ran.err) == (4, "")
    assert shown == [
        "needs something",
        "  Nothing runs yet; the caller must supply or accept what is named and ask again.",
        "  why  The refund is larger than the agent may pay out without a person.",
        "  now  Supply what is missing: approval.",
        "  then Send it as a continuation of this request. A grant of approval lifts it.",
        "  next request_approval",
        "  data verdict ESCALATE, output NEED_CONTEXT, class WORKFLOW_BLOCK",
        "  code REFUND_OVER_ESCALATION_LIMIT",
        "  rule R_LARGE_REFUND (ESCALATIONS)",
    ]
    assert place == f"  id   {decision_id} (stored, tenant default)"
    assert wait == f"  wait for a person: demur approvals show {decision_id}"
    assert demur("approvals", "show", decision_id).out.startswith("waiting\n")


def test_the_command_for_an_approval_works_where_it_is_shown(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = workspace / LARGE
    (workspace / "else where").mkdir()
    monkeypatch.chdir(workspace / "else where")
    ran = demur("decide", sample, "--config", "../demur.toml")
    program, *words = shlex.split(ran.out.splitlines()[-1].partition("person: ")[2])

    assert program == "demur"
    assert demur(*words).out.startswith("waiting\n")


@pytest.mark.parametrize("words", [(RISKY,), (UNCLEAR,), (LARGE, "--dry-run")])
def test_a_decision_that_no_person_can_lift_names_nobody(words: tuple[str, ...]) -> None:
    assert "approvals" not in demur("decide", *words).out


@pytest.mark.parametrize(("name", "status"), [(SMALL, 0), (LARGE, 4), (RISKY, 3), (UNCLEAR, 6)])
def test_the_exit_status_tells_what_was_decided(name: str, status: int) -> None:
    assert demur("decide", name).status == status
    assert demur("decide", name, "--json").status == status


def test_a_store_that_is_down_could_not_judge_and_says_why() -> None:
    path = Path("demur.toml")
    settings = path.read_text(encoding="utf-8")
    path.write_text(settings.replace('"demur.db"', '"later/demur.db"'), encoding="utf-8")

    ran = demur("decide", SMALL)

    assert ran.status == 6
    assert ran.out.startswith("could not judge\n")
    assert "  code STORAGE_UNAVAILABLE\n" in ran.out
    assert ran.out.endswith("(not stored)\n")


def test_a_store_that_is_a_folder_is_an_error_of_the_settings() -> None:
    path = Path("demur.toml")
    settings = path.read_text(encoding="utf-8")
    path.write_text(settings.replace('"demur.db"', '"samples"'), encoding="utf-8")

    ran = demur("decide", SMALL)

    assert (ran.status, ran.out) == (1, "")
    assert ran.err == (
        "error: samples: the store cannot be opened: this is a folder\n"
        "  help: name a file in it, like demur.db\n"
    )


def test_an_undecided_request_names_the_fact_and_the_rule() -> None:
    out = demur("decide", UNCLEAR).out

    assert out.startswith("could not judge\n")
    assert "  data verdict ABSTAIN, output NEED_CONTEXT, class WORKFLOW_BLOCK\n" in out
    assert "  now  evidence.chargeback_risk cannot be used: it is a text; give a number.\n" in out
    assert out.count("it is a text") == 1


def test_json_is_the_whole_record() -> None:
    record = decided(stdin=Path(LARGE).read_text(encoding="utf-8"))

    assert record == newest()
    assert record["request"] == json.loads(Path(LARGE).read_text(encoding="utf-8"))
    assert record["reason_codes"] == ["REFUND_OVER_ESCALATION_LIMIT"]


def test_a_record_goes_to_a_file_as_well() -> None:
    ran = demur("decide", SMALL, "--out", "record.json")

    assert ran.out.startswith("allowed\n  The caller may run the action as it is.\n")
    assert json.loads(Path("record.json").read_text(encoding="utf-8")) == newest()


def test_a_dry_run_decides_and_stores_nothing() -> None:
    ran = demur("decide", RISKY, "--dry-run")

    assert ran.status == 3
    assert ran.out.endswith("  id   none: a dry run stores nothing\n")
    assert demur("show").out == "no decisions\n"


def test_a_dry_run_uses_memory_and_earlier_requests() -> None:
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
    assert head.split() == ["DECISION", "OUTCOME", "ACTION", "CODES"]
    assert [row.split()[1] for row in rows] == ["allowed", "could", "refused", "needs"]
    assert count == "4 decisions: 1 allowed, 1 needs something, 1 refused, 1 could not judge"


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


@pytest.mark.parametrize("nothing", ["[]", "", " \n"])
def test_a_check_of_nothing_never_passes(nothing: str) -> None:
    ran = demur("decide", stdin=nothing)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("error: standard input: there is no request in ")


def test_one_bad_request_among_many_is_named_by_its_line_and_none_is_decided() -> None:
    ran = demur("decide", stdin=f'{lines(SMALL)}\n\n{{"action": {{"type": 3}}}}\n')

    assert ran.status == 1
    assert ran.err == "error: standard input:3: action.type: expected `str`, got `int`\n"
    assert demur("show").out == "no decisions\n"


@pytest.mark.parametrize("option", ["--finding", "--accept", "--continues", "--grant", "--signal"])
def test_options_for_one_request_are_refused_with_many(option: str) -> None:
    ran = demur("decide", option, "RCE_RISK", stdin=lines(SMALL, LARGE))

    assert ran.status == 2
    assert f"{option} applies to one request, and the file has 2" in ran.err


def test_findings_can_be_passed_with_the_request() -> None:
    record = decided(SMALL, "--finding", "UNVERIFIED_TOOL", "--finding", "RCE_RISK:tool_result")

    assert record["reason_codes"] == ["UNVERIFIED_TOOL", "RCE_RISK"]
    assert [finding["surface"] for finding in record["findings"]] == ["tool_call", "tool_result"]


def test_rules_read_the_signals_of_the_command_line() -> None:
    set_policy(
        "rules:\n",
        "rules:\n  - {id: R_FRAUD, stage: HARD_BLOCKS, if: {signals.fraud: {gt: 0.9}},"
        " then: {verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK]}}\n",
    )

    assert demur("decide", SMALL, "--signal", "fraud=0.95").status == 3
    assert demur("decide", SMALL, "--signal", "fraud=0.1").status == 0
    without = demur("decide", SMALL)
    assert without.status == 6
    assert "Supply what is missing: signals.fraud." in without.out


def test_a_signal_has_the_type_of_its_value() -> None:
    given = ["n=0.2", "yes=true", "plan=gold", 'zip="01234"', "pii.score=1", "odd=[1]", "big=NaN"]
    options = [word for text in given for word in ("--signal", text)]

    assert decided(SMALL, *options)["risk_signals"] == {
        "n": 0.2,
        "yes": True,
        "plan": "gold",
        "zip": "01234",
        "pii": {"score": 1},
        "odd": "[1]",
        "big": "NaN",
    }


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["fraud"], "`fraud` is no signal"),
        (["=1"], "`=1` is no signal"),
        (["a=1", "a=2"], "the signal `a` is given twice"),
        (["a=1", "a.b=2"], "the signal `a.b` is given twice"),
        (["guards.pii.score=0"], "signals.guards: this name belongs to guards"),
    ],
)
def test_a_signal_that_cannot_be_used_is_a_usage_error(texts: list[str], problem: str) -> None:
    ran = demur("decide", SMALL, *(word for text in texts for word in ("--signal", text)))

    assert (ran.status, ran.out) == (2, "")
    assert problem in ran.err


def test_codes_and_surfaces_are_taken_in_any_case() -> None:
    [finding] = decided(SMALL, "--finding", "rce_risk:Tool-Result")["findings"]

    assert (finding["code"], finding["surface"]) == ("RCE_RISK", "tool_result")


def test_a_finding_whose_code_has_no_surface_gets_a_default_surface() -> None:
    [finding] = decided(SMALL, "--finding", "MODEL_DECLINED")["findings"]

    assert finding["surface"] in {"input", "model", "output"}


@pytest.mark.parametrize(
    ("words", "problem", "status"),
    [
        (["--finding", "RCE_RIS"], "did you mean `RCE_RISK`?", 2),
        (["--finding", "RCE_RISK:nowhere"], "unknown surface `nowhere`", 2),
        (["--finding", "RCE_RISK:tool_cal"], "did you mean `tool_call`?", 2),
        (["--grant", "gone.json"], "gone.json: cannot read: no such file", 1),
        (["--grant", SMALL], f"{SMALL}: not a grant: ", 1),
        (["--continues", "nothing"], "there is no decision `nothing`", 1),
        (["--config", "gone.toml"], "gone.toml: cannot read the settings: no such file", 1),
    ],
)
def test_bad_words_say_what_is_meant(words: list[str], problem: str, status: int) -> None:
    ran = demur("decide", SMALL, *words)

    assert ran.status == status
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


def test_without_a_store_decide_reports_that_nothing_is_stored() -> None:
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
    assert ran.out.startswith(
        "refused\n"
        "  Advisory mode: the decision is recorded and does not bind; the action may run.\n"
    )
    assert demur("decide", stdin=lines(RISKY, LARGE)).status == 0


def test_a_rule_in_shadow_is_shown_as_such() -> None:
    set_policy("  - id: R_CHARGEBACK\n", "  - id: R_CHARGEBACK\n    shadow: true\n")

    assert "  rule R_CHARGEBACK (shadow: does not count)\n" in demur("decide", RISKY).out


def test_a_decision_that_cannot_be_stored_is_refused_and_spooled(
    caplog: pytest.LogCaptureFixture,
) -> None:
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


def test_a_new_store_is_readable_by_its_owner_only() -> None:
    Path("demur.db").unlink()
    decided(SMALL)

    assert Path("demur.db").stat().st_mode & 0o777 == 0o600


def test_an_unknown_field_says_where_it_belongs() -> None:
    ran = demur("decide", stdin=ask("refund", grants=[]))

    assert ran.err == (
        "error: standard input: grants: a request has no field `grants`\n"
        "  help: pass grants with --grant FILE\n"
    )


def test_the_decision_is_shown_even_if_the_file_cannot_be_written() -> None:
    ran = demur("decide", SMALL, "--out", "gone/record.json")

    assert ran.status == 1
    assert ran.out.startswith("allowed\n")
    assert "gone/record.json: cannot write: no such file or directory" in ran.err


@pytest.fixture
def mary() -> Path:
    key = signer()
    setting('keys = "mary.trusted.json"')
    return key


def approve(key: Path, *words: object) -> Ran:
    return demur("approve", "last", "--key", key, *words)


def test_it_lifts_what_holds_one_decision_back(mary: Path) -> None:
    before = decided(LARGE)
    ran = approve(mary, "--for", "8h")
    after = newest()
    first, *rest = ran.out.splitlines()

    assert (ran.status, ran.err) == (0, "")
    assert first.startswith(
        "user:mary lifts REFUND_OVER_ESCALATION_LIMIT for agent:billing, until "
    )
    assert rest[0] == "allowed"
    assert f"  id   {after['decision_id']} (resolves {before['decision_id']})" in rest
    assert rest[-1] == f"  demur decide FILE --continues {after['decision_id']}"
    assert after["basis"] == "resolution"


def test_the_same_request_then_passes_and_another_one_does_not(mary: Path) -> None:
    before = decided(LARGE)["decision_id"]
    approve(mary)
    same = decided(LARGE, "--continues", before)
    larger = json.loads(Path(LARGE).read_text(encoding="utf-8"))
    larger["action"]["amount"]["value"] = 9000
    other = decided("--continues", before, stdin=json.dumps(larger))

    assert (same["verdict"], same["resolved_codes"]) == ("ALLOW", ["REFUND_OVER_ESCALATION_LIMIT"])
    assert other["verdict"] == "ESCALATE"
    assert other["ignored_grants"][0]["why"] == "out_of_scope"


def test_the_grant_covers_this_request_and_these_codes_alone(mary: Path) -> None:
    before = decided(LARGE, "--finding", "UNVERIFIED_TOOL")
    approve(mary)
    after = newest()
    [grant] = after["grants"]

    assert grant["codes"] == ["REFUND_OVER_ESCALATION_LIMIT"]
    assert grant["scope"] == {key: before["scope"][key] for key in ("action", "tenant", "request")}
    assert grant["granted_to"] == "agent:billing"
    assert after["reason_codes"] == ["UNVERIFIED_TOOL"]


def test_a_partly_lifted_decision_has_its_own_status(mary: Path) -> None:
    decided(LARGE, "--finding", "UNVERIFIED_TOOL")
    ran = approve(mary)

    assert (ran.status, ran.out.splitlines()[1]) == (4, "needs something")
    assert "send the request again" not in ran.out


def test_a_grant_with_an_untrusted_key_is_rejected_with_the_reason() -> None:
    key = signer()
    decided(LARGE)
    ran = approve(key)

    assert ran.status == 4
    assert ran.out.startswith(
        "the grant was rejected: unknown key\n"
        "  help: `keys` in demur.toml does not list the key mary\n"
        "needs something\n"
    )


def test_another_key_under_the_same_name_lifts_nothing(mary: Path) -> None:
    mary.unlink()
    Path("mary.trusted.json").rename("old.json")
    other = signer()
    Path("old.json").rename("mary.trusted.json")
    decided(LARGE)
    ran = approve(other)

    assert ran.status == 4
    assert "the grant was rejected: bad signature\n  help: the trusted key `mary` is" in ran.out


def test_a_revoked_or_otherwise_void_grant_needs_no_advice(mary: Path) -> None:
    trusted = Path("mary.trusted.json")
    text = trusted.read_text(encoding="utf-8")
    trusted.write_text(text.replace("user:mary", "user:eve"), encoding="utf-8")
    decided(LARGE)
    ran = approve(mary)

    assert ran.out.startswith("the grant was rejected: wrong holder\nneeds something\n")


def test_json_is_the_new_record(mary: Path) -> None:
    decided(LARGE)
    ran = approve(mary, "--json")

    assert json.loads(ran.out) == newest()


def test_approve_can_sign_another_kind_of_grant(mary: Path) -> None:
    decided(stdin=ask("change_address"))
    ran = approve(mary)
    again = approve(mary, "--kind", "authorization")

    assert ran.err == (
        "error: a grant of approval does not lift AUTHORIZATION_MISSING (WORKFLOW_BLOCK)\n"
        "  help: a grant of authorization lifts it\n"
    )
    assert (ran.status, again.status) == (1, 0)


@pytest.mark.parametrize(
    ("request_text", "problem"),
    [
        (SMALL, "is ALLOW, so it needs no approval"),
        (
            RISKY,
            (
                "a grant of approval does not lift CHARGEBACK_RISK_BLOCK (HARD_BLOCK)\n"
                "  help: no grant lifts it\n"
            ),
        ),
        (
            UNCLEAR,
            (
                "so nobody can approve it\n"
                "  help: evidence.chargeback_risk cannot be used: it is a text; give a number.\n"
            ),
        ),
    ],
)
def test_approve_says_why_a_decision_cannot_be_approved(
    mary: Path, request_text: str, problem: str
) -> None:
    decided(request_text)
    ran = approve(mary)

    assert ran.status == 1
    assert problem in ran.err


def test_nobody_can_be_granted_anything_without_a_name(mary: Path) -> None:
    decided(stdin='{"action": {"type": "close_account"}}')

    assert "the request names no subject" in approve(mary).err


def test_nobody_approves_their_own_request() -> None:
    key = signer("billing")
    subject = {"type": "user", "id": "billing"}
    decided(stdin=ask("close_account", subject=subject))

    assert "a key holder cannot grant to themselves" in approve(key).err


def test_an_erased_decision_cannot_be_approved(mary: Path) -> None:
    decided(LARGE)
    demur(
        "audit", "erase", "--subject", "agent:billing", "--yes", "--by", "ops", "--reason", "test"
    )

    assert "was erased, so it cannot be approved" in approve(mary).err


def test_in_advisory_mode_the_status_is_that_nothing_binds(mary: Path) -> None:
    set_policy("mode: enforce", "mode: advisory")
    decided(LARGE)

    assert approve(mary).status == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [(["--for", "soon"], "`soon` is not a period"), (["--tenant", "acme"], "there is no decision")],
)
def test_bad_words_say_what_is_meant_approve(mary: Path, words: list[str], problem: str) -> None:
    decided(LARGE)

    assert problem in approve(mary, *words).err


def test_a_key_that_may_not_give_this_says_so() -> None:
    key = signer("tom", "--kind", "scope")
    decided(LARGE)

    assert "the key `tom` may not grant `approval`" in approve(key).err


def learn(*words: object) -> str:
    ran = demur("learn", "last", *words)
    assert ran.status == 0, ran.err
    return ran.out


def test_a_failure_holds_later_requests_back() -> None:
    decided(SMALL)
    out = learn("--outcome", "failure", "--note", "paid twice", "--by", "mary")
    first, follows, taken_back = out.splitlines()

    assert first == "learned: failure of refund, severity 3, tenant default"
    assert follows == ("  similar requests are denied from similarity 0.95, and escalate from 0.85")
    assert taken_back.startswith("  memory 01")
    assert decided(SMALL)["reason_codes"] == ["FAILURE_MEMORY_SIMILAR_BLOCK"]


def test_a_mild_failure_only_asks_a_person() -> None:
    decided(SMALL)
    out = learn("--outcome", "failure", "--severity", 1)

    assert "  similar requests escalate from similarity 0.85\n" in out
    assert decided(SMALL)["reason_codes"] == ["FAILURE_MEMORY_SIMILAR_ESCALATE"]


def test_a_success_lifts_nothing_unless_the_operator_says_so() -> None:
    decided(LARGE)
    out = learn("--outcome", "success")
    before = decided(LARGE)["verdict"]
    setting("[memory]\nlift = true")

    assert "  stored without effect; set `lift` under [memory] to let it lift escalations\n" in out
    assert "escalated requests are allowed from similarity 0.98" in learn("--outcome", "success")
    assert (before, decided(LARGE)["verdict"]) == ("ESCALATE", "ALLOW")


def test_an_experience_can_expire() -> None:
    decided(SMALL)
    ran = learn("--outcome", "failure", "--expires", 30, "--json")
    learned = json.loads(ran)

    assert learned["expires_at"] > learned["created_at"]
    assert "vector" not in learned
    assert ", tenant default, until " in learn("--outcome", "failure", "--expires", 30)


@pytest.mark.parametrize(
    ("words", "problem", "status"),
    [
        (["--severity", "9"], "unknown value `9` of --severity", 2),
        (["--expires", "0"], "--expires must be from 1 to 36500 days, not `0`", 2),
        (["--note", "x" * 3000], "a note has at most 2000 characters", 1),
        (["--tenant", "acme"], "there is no decision yet", 1),
    ],
)
def test_bad_words_say_what_is_meant_learn(words: list[str], problem: str, status: int) -> None:
    decided(SMALL)
    ran = demur("learn", "last", "--outcome", "failure", *words)

    assert ran.status == status
    assert problem in ran.err


def test_nothing_can_be_learned_from_what_was_erased() -> None:
    decided(SMALL)
    demur(
        "audit", "erase", "--subject", "agent:billing", "--yes", "--by", "ops", "--reason", "test"
    )

    assert (
        "was erased: nothing can be learned" in demur("learn", "last", "--outcome", "failure").err
    )


def learned(*words: object) -> str:
    decided(SMALL, *words)
    ran = demur("learn", "last", "--outcome", "failure", "--expires", 1, "--json")
    memory_id: str = json.loads(ran.out)["memory_id"]
    return memory_id


def test_a_forgotten_experience_no_longer_blocks() -> None:
    memory_id = learned()
    ran = demur("forget", memory_id, memory_id)

    assert (ran.status, ran.out) == (0, "forgot 1 experience of tenant default\n")
    assert decided(SMALL)["verdict"] == "ALLOW"


def test_the_label_stays() -> None:
    demur("forget", learned())

    assert "outcome failure" in demur("explain", "last").out


def test_a_missing_memory_is_an_error_even_if_others_exist() -> None:
    ran = demur("forget", learned(), "gone")
    two = demur("forget", "gone", "too")

    assert (ran.status, ran.out) == (1, "forgot 1 experience of tenant default\n")
    assert "1 of these memories does not exist\n  help: is --tenant right?" in ran.err
    assert "2 of these memories do not exist" in two.err


def test_another_tenant_s_memory_is_not_there() -> None:
    memory_id = learned("--tenant", "acme")

    assert demur("forget", memory_id).status == 1
    assert demur("forget", memory_id, "--tenant", "acme", "--json").out == (
        '{"tenant": "acme", "forgotten": 1}\n'
    )


def test_forget_deletes_expired_experiences() -> None:
    learned()
    with changed_store() as connection:
        connection.execute("UPDATE experiences SET expires_at = '2020-01-01T00:00:00.000Z'")
    decided(SMALL)
    demur("learn", "last", "--outcome", "failure", "--expires", 1)

    assert demur("forget", "--expired").out == "forgot 1 experience of tenant default\n"
    assert demur("forget", "--expired").out == "forgot 0 experiences of tenant default\n"


@pytest.mark.parametrize("words", [(), ("x", "--expired")])
def test_forget_takes_either_memory_ids_or_expired(words: tuple[str, ...]) -> None:
    ran = demur("forget", *words)

    assert ran.status == 2
    assert "give either memory ids or --expired" in ran.err
