import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from gates import TEXT

from demur.cli import eval_from_store
from demur.cli.workspace import read_settings
from demur.errors import InputError
from demur.evals.leaks import half_of
from demur.evals.pairs import read_pairs
from demur.evals.suite import load_suite
from demur.gate.config import open_gate
from demur.store.rows import Label

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
TASKS = [
    "delete the old exports of last spring",
    "tidy up the shared photo folder",
    "remove duplicates from the contact list",
    "clear the cache of the build server",
    "drop the unused tables of the demo",
    "empty the bin of the mail account",
    "purge expired coupons from the shop",
    "wipe the test phones before we return them",
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return settings with a store of decisions, all of them labelled.

    Their ids are the same each time, as they say which half a decision falls into.
    """
    (tmp_path / "policy.yaml").write_text(TEXT, encoding="utf-8")
    path = tmp_path / "demur.toml"
    path.write_text('policy = "policy.yaml"\nstore = "demur.db"\n', encoding="utf-8")
    with open_gate(read_settings(path), clock=lambda: NOW, entropy=bytes) as gate:
        assert gate.store is not None
        for number, task in enumerate(TASKS):
            request = {
                "action": {"type": "cleanup", "intent": task},
                "subject": {"type": "agent", "id": "desk"},
            }
            record = gate.decide(request)
            value = "missed_harm" if number % 2 else "false_refusal"
            at = f"2026-11-{number + 1:02d}T12:00:00.000Z"
            gate.store.add_label(
                Label(record.decision_id, record.tenant, at, "review", value, "", "mara")
            )
    return path


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_from_store.configure_eval_from_store(parser)
    return eval_from_store.run_eval_from_store(
        parser.parse_args([str(word) for word in words]), lambda: NOW
    )


def test_labels_become_a_suite(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "suite.jsonl"

    assert run("--config", config, "--out", out, "--name", "desk") == 0
    suite = load_suite(out)
    assert suite.name == "desk"
    assert sorted(row.prompt for row in suite.rows) == sorted(TASKS)
    assert capsys.readouterr().out.splitlines() == [
        "labels    8",
        "rows      8 (4 legitimate, 4 harmful)",
        f"wrote     {out}",
    ]


def test_with_pairs_the_suite_is_the_half_to_test_on(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, pairs = tmp_path / "suite.jsonl", tmp_path / "pairs.jsonl"

    assert run("--config", config, "--out", out, "--pairs", pairs, "--suite", "smoke") == 0
    shown = capsys.readouterr().out
    found = read_pairs(pairs)[0]
    suite = load_suite(out)
    assert {half_of(row) for row in suite.rows} == {"test"}
    assert found
    assert len(suite.rows) + len(found) == 8
    assert f"pairs     {len(found)}\n" in shown
    assert f"wrote     {pairs}\n" in shown


def test_all_of_it_can_be_trained_on_as_messages(config: Path, tmp_path: Path) -> None:
    out, pairs = tmp_path / "suite.jsonl", tmp_path / "pairs.jsonl"
    words = ("--config", config, "--out", out, "--pairs", pairs, "--chat", "--test-share", "0")

    assert run(*words) == 0
    assert not out.exists()
    assert len(read_pairs(pairs)[0]) == 8
    assert read_pairs(pairs)[1] is True


def test_only_labels_since_a_time_count(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--config", config, "--out", tmp_path / "suite.jsonl", "--json")

    assert run(*words, "--since", "9d") == 0
    assert json.loads(capsys.readouterr().out) == {
        "labels": 3,
        "rows": 3,
        "pairs": 0,
        "left_out": [],
    }


def test_without_labels_nothing_is_written(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "suite.jsonl"

    assert run("--config", config, "--out", out, "--since", "2026-12-24") == 1
    assert not out.exists()


def test_a_file_that_is_there_is_not_replaced_by_mistake(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "suite.jsonl"
    out.touch()
    with pytest.raises(InputError, match="already exists"):
        run("--config", config, "--out", out)

    assert run("--config", config, "--out", out, "--force") == 0
