import json
from pathlib import Path

import pytest
from commandline import demur
from gates import CORE, KEY, TEXT, Ticking, cleanup, gate_over, refund

from demur.audit.lines import read_lines
from demur.audit.pack import read_pack
from demur.audit.replay import replay_pack
from demur.classification.keys import KeyRing
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.opening import open_store


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[DecisionRecord]:
    """Return what was decided in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("demur.toml").write_text('policy = "policy.yaml"\nstore = "demur.db"\n')
    Path("policy.yaml").write_text(TEXT)
    clock = Ticking()
    policy = parse_policy(TEXT, registry=CORE)
    made = []
    with gate_over(open_store("demur.db"), policy, clock=clock) as gate:
        for request in (refund(), refund(400, tenant={"id": "acme"}), cleanup()):
            made.append(gate.decide(request))
            clock.advance(days=1)
    return made


def test_a_decision_is_printed_as_json(records: list[DecisionRecord]) -> None:
    ran = demur("export", records[1].decision_id)

    assert ran.status == 0
    printed = json.loads(ran.out)
    assert printed["verdict"] == "ESCALATE"
    assert printed["request"]["action"]["amount"]["value"] == 400


def test_a_decision_is_written_as_json_to_a_file_that_is_its_owners(
    records: list[DecisionRecord],
) -> None:
    assert demur("export", records[0].decision_id, "--out", "one.json").status == 0

    assert json.loads(Path("one.json").read_text())["decision_id"] == records[0].decision_id
    assert Path("one.json").stat().st_mode & 0o077 == 0
    assert not Path("one.json.part").exists()


def test_a_pack_replays(records: list[DecisionRecord]) -> None:
    ran = demur("export", records[1].decision_id, "--pack", "--out", "decision.zip")

    assert ran.out == f"decision.zip: decision {records[1].decision_id}\n"
    assert replay_pack(read_pack(Path("decision.zip").read_bytes())).same


def test_a_pack_can_be_signed(records: list[DecisionRecord]) -> None:
    Path("key.json").write_text(
        json.dumps({name: getattr(KEY, name) for name in KEY.__struct_fields__})
    )
    words = ("export", records[0].decision_id, "--pack", "--out", "signed.zip")

    assert demur(*words, "--sign", "key.json").status == 0
    ring = KeyRing([KEY.trusted_key()])
    assert read_pack(Path("signed.zip").read_bytes(), ring).signed_by == "user:mary"


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (["--all"], [0, 1, 2]),
        (["--verdict", "ESCALATE"], [1, 2]),
        (["--code", "DESTRUCTIVE_ACTION"], [2]),
        (["--action", "refund"], [0, 1]),
        (["--subject", "agent:billing"], [0, 1, 2]),
        (["--tenant", "acme"], [1]),
        (["--since", "2026-11-16T12:00Z"], [1, 2]),
        (["--since", "2026-11-16", "--until", "2026-11-17"], [1]),
        (["--all", "--until", "2020-01-01"], []),
    ],
    ids=str,
)
def test_many_are_written_as_lines(
    records: list[DecisionRecord], options: list[str], chosen: list[int]
) -> None:
    ran = demur("export", *options, "--out", "records.jsonl")

    count = len(chosen)
    assert ran.out == f"records.jsonl: {count} decision{'s' * (count != 1)}\n"
    with Path("records.jsonl").open("rb") as lines:
        assert list(read_lines(lines)) == [records[number] for number in chosen]


def test_lines_can_be_printed(records: list[DecisionRecord]) -> None:
    ran = demur("export", "--all")

    assert list(read_lines(line.encode() for line in ran.out.splitlines())) == records


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "no decision is chosen"),
        (["last", "--all"], "--all filters decisions"),
        (["last", "--since", "7d"], "--since filters decisions"),
        (["--all", "--pack", "--out", "x.zip"], "a pack holds one decision"),
        (["last", "--pack"], "--pack needs --out"),
        (["last", "--sign", "key.json"], "only a pack can be signed"),
        (["nosuch"], "there is no decision"),
        (["last", "--out", "nowhere/one.json"], "no such file"),
    ],
)
@pytest.mark.usefixtures("records")
def test_what_cannot_be_exported_is_said(words: list[str], problem: str) -> None:
    ran = demur("export", *words)

    assert ran.status == 1
    assert problem in ran.err


@pytest.mark.usefixtures("records")
def test_a_failure_leaves_the_earlier_file_as_it_was() -> None:
    Path("records.jsonl").write_text("before")
    Path("demur.db").write_bytes(b"no database")

    assert demur("export", "--all", "--out", "records.jsonl").status == 1
    assert Path("records.jsonl").read_text() == "before"
    assert not Path("records.jsonl.part").exists()
