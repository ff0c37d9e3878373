"""`demur guard train`: the files it writes, the lines it prints, and what it refuses."""

import json
from pathlib import Path

import pytest
from support.command_line import demur
from support.gates import TEXT

from demur.codes.vocabulary import Surface
from demur.evals.suite import load_suite
from demur.gate.config import load_config, open_gate
from demur.gate.excerpt import Utterance
from demur.model.finding import Finding
from demur.store.opening import open_store
from demur.store.rows import Label

pytest.importorskip("numpy")

ROWS = Path(__file__).parents[3] / "examples/rows/heron.jsonl"
SETTINGS = '[guards.models.heron]\nkind = "trained"\nfile = "heron.npz"\nsurfaces = ["input"]'
FILES = ("heron.npz", "heron.report.json", "heron.report.txt", "heron.suite.jsonl")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    return tmp_path


def test_a_guard_is_trained_and_runs_by_the_settings_that_are_printed(folder: Path) -> None:
    done = demur(
        "guard", "train", str(ROWS), "--name", "heron", "--max-false-holds", "0.05", "--json"
    )
    made = json.loads(done.out)

    assert done.status == 0
    assert made["settings"] == SETTINGS
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert made["report"] == json.loads((folder / "heron.report.json").read_text("utf-8"))
    assert made["report"]["false_hold_bound"] <= 0.05
    assert len(load_suite(folder / "heron.suite.jsonl").rows) == len(ROWS.read_text().splitlines())
    (folder / "demur.toml").write_text(f"[guards]\nlearned = false\n{SETTINGS}\n")
    held = demur("guard", "input", "--json", stdin="When will the Heron be released?")
    assert held.status == 4
    [finding] = json.loads(held.out)["findings"]
    assert (finding["code"], finding["action"]) == ("TOPIC_DENIED", "escalate")
    assert demur("guard", "input", stdin="How do I descale the Wren?").status == 0


def test_a_rate_that_the_rows_cannot_support_writes_nothing(folder: Path) -> None:
    done = demur("guard", "train", str(ROWS), "--name", "heron")

    assert done.status == 1
    assert "cannot support a rate of false holds of 0.5 %" in done.err
    assert "rows to allow, or promise less: --max-false-holds 0.042" in done.err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        (["--name", "Two Words"], 2, "is not a name for a guard"),
        (["--name", "learned"], 2, "the name of demur's own model"),
        (["--name", "heron"], 2, "there are no rows to train on"),
        (["missing.jsonl", "--name", "heron"], 1, "cannot read the rows"),
        ([str(ROWS), "--name", "heron", "--code", "CONTENT_CYBER"], 2, "is a hard block"),
        ([str(ROWS), "--name", "heron", "--code", "NOPE"], 2, "unknown code `NOPE`"),
        ([str(ROWS), "--name", "heron", "--max-false-holds", "2"], 1, "between 0 and 1"),
    ],
)
def test_what_cannot_be_trained_is_an_error(
    folder: Path, words: list[str], status: int, problem: str
) -> None:
    done = demur("guard", "train", *words)

    assert (done.status, list(folder.iterdir())) == (status, [])
    assert problem in done.err


def test_files_are_replaced_only_by_force(folder: Path) -> None:
    (folder / "heron.npz").write_bytes(b"")
    words = ("guard", "train", str(ROWS), "--name", "heron", "--max-false-holds", "0.05")

    assert "the file already exists" in demur(*words).err
    assert demur(*words, "--force").status == 0


def test_reviews_of_a_store_are_rows(folder: Path) -> None:
    (folder / "policy.yaml").write_text(TEXT, encoding="utf-8")
    config = folder / "demur.toml"
    config.write_text('policy = "policy.yaml"\nstore = "demur.db"\n', encoding="utf-8")
    listed = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    values = {"hold": "missed_harm", "allow": "false_refusal"}
    with open_gate(load_config(config)) as gate:
        made = [
            (
                gate.decide(
                    {
                        "action": {"type": "cleanup", "intent": row["text"]},
                        "subject": {"type": "agent", "id": "desk"},
                    }
                ),
                row["label"],
            )
            for row in listed
        ]
    with open_store(folder / "demur.db") as store:
        for decision, label in made:
            name, tenant = decision.decision_id, decision.tenant
            at = "2026-11-15T12:00:00.000Z"
            store.add_label(Label(name, tenant, at, "review", values[label], "", "mara"))
    words = ("--name", "heron", "--max-false-holds", "0.05", "--out", "models")
    done = demur("guard", "train", "--from-store", "demur.db", *words)

    assert done.status == 0, done.err
    assert "rows         50 to hold (50 different), 74 to allow (72 different)" in done.out
    assert 'file = "models/heron.npz"' in done.out


def test_reviews_of_guarded_prompts_need_their_texts(folder: Path) -> None:
    (folder / "policy.yaml").write_text(TEXT, encoding="utf-8")
    config = folder / "demur.toml"
    config.write_text('policy = "policy.yaml"\nstore = "demur.db"\n', encoding="utf-8")
    listed = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    values = {"hold": "missed_harm", "allow": "false_refusal"}
    lines = []
    with open_gate(load_config(config)) as gate:
        request = {"action": {"type": "generate"}, "subject": {"type": "agent", "id": "desk"}}
        made = [(gate.decide(request), row) for row in listed]
    words = ["--from-store", "demur.toml", "--name", "heron", "--max-false-holds", "0.05"]
    none = demur("guard", "train", *words)
    with open_store(folder / "demur.db") as store:
        for decision, row in made:
            at = "2026-11-15T12:00:00.000Z"
            value = values[row["label"]]
            name, tenant = decision.decision_id, decision.tenant
            store.add_label(Label(name, tenant, at, "review", value, "", "mara"))
            lines.append(json.dumps({"decision_id": name, "text": row["text"]}))
    without = demur("guard", "train", *words)
    (folder / "texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = demur("guard", "train", *words, "--texts", "texts.jsonl")

    assert none.err.startswith("error: demur.toml: no decision has been reviewed\n  help: label")
    assert without.err == (
        "error: demur.toml: none of 124 reviewed decisions gives a row: 124 no prompt\n"
        "  help: give the texts by --texts\n"
    )
    assert done.status == 0, done.err
    assert "rows         50 to hold (50 different), 74 to allow (72 different)" in done.out


def test_a_guard_learns_from_reviews_of_recorded_answers(folder: Path) -> None:
    (folder / "policy.yaml").write_text(TEXT, encoding="utf-8")
    config = folder / "demur.toml"
    config.write_text('policy = "policy.yaml"\nexcerpts = "all"\n', encoding="utf-8")
    listed = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    found = Finding(code="TOPIC_DENIED", surface=Surface.OUTPUT)
    request = {"action": {"type": "generate"}, "extensions": {"stage": "output"}}
    with open_gate(load_config(config)) as gate:
        assert gate.store is not None
        for row in listed:
            said = Utterance(row["text"], "assistant", Surface.OUTPUT)
            made = gate.decide(request, findings=[found], said=said)
            value = "good" if row["label"] == "hold" else "false_refusal"
            at = "2026-11-15T12:00:00.000Z"
            gate.store.add_label(Label(made.decision_id, made.tenant, at, "review", value, "", "m"))
    words = ["--from-store", "demur.toml", "--name", "heron", "--max-false-holds", "0.05"]
    prompts = demur("guard", "train", *words)
    answers = demur("guard", "train", *words, "--surface", "output")

    assert "none of 124 reviewed decisions gives a row: 124 other surface" in prompts.err
    assert answers.status == 0, answers.err
    assert "rows         50 to hold (50 different), 74 to allow (72 different)" in answers.out
    assert 'surfaces = ["output"]' in answers.out


def test_a_line_of_texts_has_a_decision_and_a_text(folder: Path) -> None:
    (folder / "texts.jsonl").write_text('{"text": "a"}\n', encoding="utf-8")
    (folder / "policy.yaml").write_text(TEXT, encoding="utf-8")
    (folder / "demur.toml").write_text('policy = "policy.yaml"\nstore = "demur.db"\n')
    words = ("--from-store", "demur.toml", "--name", "heron", "--texts", "texts.jsonl")
    done = demur("guard", "train", *words)

    assert done.status == 1
    assert "texts.jsonl:1: the line has no `decision_id` or no `text`" in done.err
