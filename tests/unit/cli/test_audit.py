"""The audit commands together, as an auditor and a vandal would use them."""

import json
from pathlib import Path

import pytest
from support.command_line import demur
from support.support_desk import LARGE, RISKY, SMALL, changed_store, decided, signer
from support.webhook_server import hook

pytestmark = pytest.mark.usefixtures("workspace")

AUTHOR = ("--by", "ops", "--reason", "a year is over")
HINT = "--heads with an earlier export also reveals records that were cut off\n"


@pytest.fixture
def three() -> list[str]:
    return [decided(name)["decision_id"] for name in (SMALL, LARGE, RISKY)]


def test_verify_reports_valid_chains(three: list[str]) -> None:
    decided(SMALL, "--tenant", "acme")
    ran = demur("audit", "verify")

    assert len(three) == 3
    assert ran == (0, f"ok the chains are valid: 4 records of 2 tenants\n{HINT}", "")
    assert demur("audit", "verify", "--tenant", "acme").out.startswith(
        "ok the chains are valid: 1 record of 1 tenant\n"
    )


def test_a_changed_record_is_named(three: list[str]) -> None:
    with changed_store() as connection:
        connection.execute(
            "UPDATE decision_records SET record = replace(record, 'ESCALATE', 'ALLOW') "
            "WHERE decision_id = ?",
            (three[1],),
        )
    ran = demur("audit", "verify")

    assert ran.status == 1
    assert ran.out == (
        f"broken: tenant default, record 2 ({three[1]}): "
        "hash differs: the record or its id was changed\n"
        "1 record of 1 tenant read up to there\n"
    )


def test_a_missing_record_is_named(three: list[str]) -> None:
    with changed_store() as connection:
        connection.execute("DELETE FROM decision_records WHERE decision_id = ?", (three[1],))
    ran = demur("audit", "verify", "--json")
    told = json.loads(ran.out)

    assert ran.status == 1
    assert told["holds"] is False
    assert told["breaks"] == [
        {
            "tenant": "default",
            "seq": 2,
            "decision_id": None,
            "problem": "is missing: 3 comes next",
        }
    ]


def test_an_exported_head_shows_what_was_cut_off_together_with_its_traces(
    three: list[str],
) -> None:
    exported = demur("audit", "heads", "--out", "heads.json")
    with changed_store() as connection:
        connection.execute("DELETE FROM decision_records WHERE decision_id = ?", (three[2],))
        connection.execute(
            "UPDATE chain_heads SET seq = 2, record_hash = "
            "(SELECT record_hash FROM decision_records WHERE seq = 2)"
        )

    assert exported.out.startswith("heads.json: 1 head\n  keep it where the store's writers")
    assert demur("audit", "verify").status == 0
    ran = demur("audit", "verify", "--heads", "heads.json")
    assert ran.status == 1
    assert "record 3: truncated: an exported head is at 3" in ran.out


def test_a_checkpoint_is_held_to_as_well(three: list[str]) -> None:
    ran = demur("audit", "checkpoint")
    listed = json.loads(demur("audit", "checkpoint", "--json").out)
    with changed_store() as connection:
        connection.execute("DELETE FROM decision_records WHERE decision_id = ?", (three[2],))
        connection.execute(
            "UPDATE chain_heads SET seq = 2, record_hash = "
            "(SELECT record_hash FROM decision_records WHERE seq = 2)"
        )

    assert ran.out.splitlines()[1].split()[:2] == ["default", "3"]
    assert listed[0]["seq"] == 3
    assert "truncated: the checkpoint of " in demur("audit", "verify").out


def test_part_of_a_chain_can_be_verified(three: list[str]) -> None:
    ran = demur("audit", "verify", "--from", 2, "--to", 2)

    assert len(three) == 3
    assert ran.out.startswith("ok the chains are valid: 1 record of 1 tenant\n")


def test_an_empty_store_proves_nothing() -> None:
    assert demur("audit", "verify") == (6, "no records yet: nothing to verify\n", "")
    assert demur("audit", "checkpoint").out == "no records yet: there are no heads to store\n"
    assert json.loads(demur("audit", "heads").out)["heads"] == []


@pytest.mark.parametrize(
    ("words", "problem", "status"),
    [
        (["--tenant", "acme"], "there is no tenant `acme`\n  help: there are default\n", 1),
        (["--from", "0"], "records count from 1", 2),
        (["--from", "3", "--to", "2"], "--to must not be before --from", 2),
        (["--heads", "gone.json"], "gone.json: cannot read the heads: no such file", 1),
        (["--heads", "policy.yaml"], "policy.yaml: not exported heads: not JSON", 1),
        (["--heads", SMALL], f"{SMALL}: no exported heads: ", 1),
    ],
)
def test_words_that_prove_nothing_are_errors(
    three: list[str], words: list[str], problem: str, status: int
) -> None:
    ran = demur("audit", "verify", *words)

    assert (len(three), ran.status, ran.out) == (3, status, "")
    assert problem in ran.err


def test_a_tenant_of_an_empty_store_is_an_error_too() -> None:
    assert "help: there are no records yet" in demur("audit", "verify", "--tenant", "x").err


def test_an_earlier_export_is_never_replaced(three: list[str]) -> None:
    demur("audit", "heads", "--out", "heads.json")
    before = Path("heads.json").read_bytes()
    ran = demur("audit", "heads", "--out", "heads.json")

    assert (len(three), ran.status) == (3, 1)
    assert "heads.json: the file already exists\n  help: earlier exports are evidence" in ran.err
    assert Path("heads.json").read_bytes() == before


def test_erasing_says_first_what_it_would_do(three: list[str]) -> None:
    ran = demur("audit", "erase", "--subject", "agent:billing")

    assert ran.status == 1
    assert ran.out == (
        "would erase the personal part of 3 records of agent:billing, tenant default, "
        "and the experiences learned from them\n"
        "  nothing was erased; --yes erases, and cannot be undone\n"
    )
    assert json.loads(demur("show", three[0], "--json").out)["request"] is not None


def test_an_erased_subject_is_gone_and_the_chain_stays_valid(three: list[str]) -> None:
    ran = demur("audit", "erase", "--subject", "agent:billing", "--yes", *AUTHOR)

    assert ran == (
        0,
        (
            "erased the personal part of 3 records of agent:billing, tenant default\n"
            "  the decisions and their reasons remain, and the chain stays valid\n"
            "  an event of the chain names the decisions, who erased them and why\n"
        ),
        "",
    )
    assert json.loads(demur("show", three[0], "--json").out)["request"] is None
    assert (
        "ok the chains are valid: 3 records of 1 tenant (3 erased)\n"
        in demur("audit", "verify").out
    )


def test_erasing_points_to_what_was_never_stored(three: list[str]) -> None:
    Path("demur.db.spool.jsonl").touch()
    ran = demur("audit", "erase", "--subject", "agent:billing", "--yes", *AUTHOR)

    assert len(three) == 3
    assert "note: demur.db.spool.jsonl holds decisions that were never stored" in ran.out
    Path("demur.toml").write_text('spool = ""\n', encoding="utf-8")
    decided(SMALL)
    assert (
        "note:" not in demur("audit", "erase", "--subject", "agent:billing", "--yes", *AUTHOR).out
    )


def test_nothing_to_erase_is_an_error() -> None:
    ran = demur("audit", "erase", "--subject", "agent:x", "--tenant", "acme", "--yes", *AUTHOR)

    assert ran.status == 1
    assert "tenant `acme` has no records of `agent:x`" in ran.err


def test_erasing_tells_a_machine(three: list[str]) -> None:
    words = ("audit", "erase", "--subject", "agent:billing", "--json")

    assert len(three) == 3
    assert json.loads(demur(*words).out) == {
        "tenant": "default",
        "records": 3,
        "erased": False,
        "open_parts": 0,
        "others": {},
        "kept": {},
    }
    assert json.loads(demur(*words, "--yes", *AUTHOR).out)["erased"] is True


def test_retiring_says_first_what_it_would_do(three: list[str]) -> None:
    ran = demur("audit", "retire", "--before", "2100-01-01")

    assert ran.status == 1
    assert ran.out == (
        "would delete 3 records of tenant default from before 2100-01-01T00:00:00.000Z\n"
        "  nothing was deleted; --yes deletes, and cannot be undone\n"
    )
    assert demur("show", three[0]).status == 0


def test_retired_records_are_gone_and_the_rest_still_verifies(three: list[str]) -> None:
    demur("audit", "heads", "--out", "heads.json")
    ran = demur("audit", "retire", "--before", "2100-01-01", "--yes", *AUTHOR)
    decided(SMALL)

    assert ran.out.startswith("retired 3 records of tenant default from before 2100-01-01")
    assert demur("show", three[0]).status == 1
    lines = demur("audit", "verify", "--heads", "heads.json").out.splitlines()
    assert lines[:2] == [
        "ok the chains are valid: 1 record of 1 tenant",
        "tenant default begins at 4",
    ]
    assert lines[2].startswith("  retired 3 records up to 3 on 20")
    assert lines[2].endswith(" by ops: a year is over")


def test_nothing_is_let_go_without_a_name_and_a_reason(three: list[str]) -> None:
    for words in (("erase", "--subject", "agent:billing"), ("retire", "--before", "2100-01-01")):
        for author in ((), ("--by", "ops"), ("--reason", "why")):
            ran = demur("audit", *words, "--yes", *author)
            assert (ran.status, ran.out) == (2, "")
            assert "--yes needs --by and --reason" in ran.err

    assert demur("show", three[0]).status == 0
    assert demur("audit", "verify").out == f"ok the chains are valid: 3 records of 1 tenant\n{HINT}"


def test_verify_says_what_was_let_go_to_a_machine(three: list[str]) -> None:
    demur("audit", "erase", "--subject", "agent:billing", "--yes", *AUTHOR)
    [chain] = json.loads(demur("audit", "verify", "--json").out)["chains"]
    [event] = chain["let_go"]

    assert len(three) == 3
    assert (chain["begins"], chain["ends"], chain["erased"]) == (1, 4, 3)
    assert (event["kind"], event["seq"], event["records"]) == ("erase", 4, 3)
    assert (event["by"], event["reason"]) == ("ops", "a year is over")


def test_an_identifier_in_the_inputs_is_erased(three: list[str]) -> None:
    words = ("audit", "erase", "--identifier", "agent:billing")

    assert len(three) == 3
    assert demur(*words).out.startswith("would erase the personal part of 3 records of agent:bill")
    assert demur(*words, "--yes", *AUTHOR).status == 0
    assert demur(*words).status == 1
    assert "has no records of `agent:billing`" in demur(*words).err
    assert "an identifier has at least 3" in demur("audit", "erase", "--identifier", "ab").err


def test_anchors_reveal_a_chain_that_was_cut_off_and_grew_again(three: list[str]) -> None:
    key = signer()
    words = ("audit", "anchor", "--out", "anchors.jsonl", "--key", key)
    first = demur(*words)
    second = demur(*words)
    check = ("audit", "verify", "--anchors", "anchors.jsonl", "--keys", "mary.trusted.json")

    assert first.out.startswith("anchors.jsonl: anchored 1 head at ")
    assert (first.status, second.status) == (0, 0)
    assert Path("anchors.jsonl").stat().st_mode & 0o777 == 0o600
    held = demur(*check)
    assert held.status == 0
    assert "2 anchors signed by user:mary: every head is in its chain" in held.out
    with changed_store() as connection:
        connection.execute("DELETE FROM decision_records WHERE decision_id = ?", (three[2],))
        connection.execute(
            "UPDATE chain_heads SET seq = 2, record_hash = "
            "(SELECT record_hash FROM decision_records WHERE seq = 2)"
        )
    cut = demur(*check)
    assert (cut.status, "truncated: the anchor of " in cut.out) == (1, True)
    decided(SMALL)
    assert demur("audit", "verify").status == 0
    grown = demur(*check)
    assert (grown.status, "the anchor of " in grown.out) == (1, True)
    assert "has another hash" in grown.out


def test_anchored_heads_that_were_retired_are_said_to_prove_nothing(three: list[str]) -> None:
    words = ("audit", "anchor", "--out", "anchors.jsonl", "--key", signer())
    demur(*words)
    decided(SMALL)
    demur("audit", "retire", "--before", "2100-01-01", "--yes", *AUTHOR)
    demur(*words)
    Path("demur.toml").write_text('keys = "mary.trusted.json"\n', encoding="utf-8")
    decided(SMALL)
    ran = demur("audit", "verify", "--anchors", "anchors.jsonl")

    assert (len(three), ran.status) == (3, 0)
    assert "1 anchored head cannot be checked any more: the places were retired since" in ran.out


def test_an_anchor_that_nobody_trusted_signed_is_refused(three: list[str]) -> None:
    demur("audit", "anchor", "--out", "anchors.jsonl", "--key", signer())
    signer("eve")
    check = ("audit", "verify", "--anchors", "anchors.jsonl")

    assert len(three) == 3
    assert "no trusted key is named" in demur(*check).err
    ran = demur(*check, "--keys", "eve.trusted.json")
    assert (ran.status, "anchors.jsonl:1: signed with the key" in ran.err) == (1, True)
    assert demur("audit", "verify", "--keys", "eve.trusted.json").status == 2
    Path("anchors.jsonl").write_text("", encoding="utf-8")
    assert "the file holds no anchors" in demur(*check, "--keys", "eve.trusted.json").err


def test_an_anchor_is_sent_to_an_address(three: list[str]) -> None:
    key = signer()
    with hook() as server:
        ran = demur("audit", "anchor", "--url", server.url, "--key", key)
        [(_, body)] = server.deliveries

    assert (len(three), ran.status) == (3, 0)
    assert "hush" not in ran.out + ran.err
    document = json.loads(body)
    assert (document["schema_version"], document["heads"][0]["seq"]) == ("chain_anchor.v1", 3)
    Path("anchors.jsonl").write_bytes(body)
    check = ("audit", "verify", "--anchors", "anchors.jsonl", "--keys", "mary.trusted.json")
    assert demur(*check).status == 0
    with hook(404) as server:
        refused = demur("audit", "anchor", "--url", server.url, "--key", key)
    assert (refused.status, "the webhook answered 404" in refused.err) == (1, True)


def test_anchors_are_written_on_a_schedule_through_outages(
    three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            Path("missing").mkdir()
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("demur.cli.audit.time.sleep", wait)
    words = ("--out", "missing/anchors.jsonl", "--key", signer(), "--every", "1h")
    ran = demur("audit", "anchor", *words)

    assert (len(three), ran.status, pauses) == (3, 0, [3600, 3600, 3600])
    assert ran.err.startswith("not anchored: missing/anchors.jsonl: cannot write the anchor")
    assert len(Path("missing/anchors.jsonl").read_bytes().splitlines()) == 2


def test_nothing_to_retire_is_an_error(three: list[str]) -> None:
    ran = demur("audit", "retire", "--before", "2020-01-01", "--yes", *AUTHOR)

    assert len(three) == 3
    assert "tenant `default` has no records from before 2020-01-01T00:00:00.000Z" in ran.err


def test_retiring_tells_a_machine(three: list[str]) -> None:
    told = json.loads(
        demur("audit", "retire", "--before", "2100-01-01", "--json", "--yes", *AUTHOR).out
    )

    assert len(three) == 3
    assert (told["records"], told["retired"], told["tenant"]) == (3, True, "default")


def test_an_approval_is_part_of_the_chain(three: list[str]) -> None:
    Path("demur.toml").write_text('keys = "mary.trusted.json"\n', encoding="utf-8")
    demur("approve", three[1], "--key", signer())

    assert demur("audit", "verify").out.startswith(
        "ok the chains are valid: 4 records of 1 tenant\n"
    )


def test_the_preview_says_what_keeps_an_identifier_and_why(three: list[str]) -> None:
    request = {**json.loads(Path(SMALL).read_text(encoding="utf-8")), "request_id": "ann-lee"}
    Path("ann.json").write_text(json.dumps(request), encoding="utf-8")
    decided("ann.json")
    demur("learn", three[0], "--outcome", "failure", "--note", "ann-lee called")
    words = ("audit", "erase", "--identifier", "ann-lee")
    preview = demur(*words).out

    assert preview.splitlines() == [
        (
            "would erase the personal part of 1 record of ann-lee, tenant default, "
            "and the experiences learned from them"
        ),
        "  and 1 experience, 1 note that hold it",
        "  nothing was erased; --yes erases, and cannot be undone",
        "note: 1 record keeps it in the open part, which the chain covers",
        "  request_id of 1",
    ]
    assert "and 1 experience, 1 note that held it" in demur(*words, "--yes", *AUTHOR).out
    plan = json.loads(demur(*words, "--json").out)
    assert (plan["records"], plan["kept"]) == (0, {"record.request_id": 1})
    assert "erased 1 record, 1 experience, 1 note on 20" in demur("audit", "verify").out
