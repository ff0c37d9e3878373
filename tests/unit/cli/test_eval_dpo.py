import argparse
import json
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.eval_runs import NO, YES

from demur.cli import eval_train
from demur.cli.main import Arguments
from demur.errors import InputError, MissingExtraError
from demur.evals.dpo import SweepOptions, TunedModel
from demur.evals.leaks import split_suite
from demur.evals.pairs import PreferencePair, write_pairs
from demur.evals.suite import load_suite

FAR = PreferencePair(
    prompt="Is the library open on public holidays?", chosen="Yes.", rejected="No."
)
NEAR = PreferencePair(
    prompt=split_suite(load_suite("smoke"), "test").rows[0].prompt, chosen="Yes.", rejected="No."
)


class Toy:
    """Refuses everything before it is trained, and nothing after."""

    def __init__(self, model: Path, options: SweepOptions, *, chat: bool) -> None:
        self.name = f"{model}{' chat' if chat else ''}"
        self.options = options

    def load_base(self) -> TunedModel:
        """Return what refuses."""
        return TunedModel(lambda _: NO)

    def train_model(self, pairs: Sequence[PreferencePair], beta: float, folder: Path) -> TunedModel:
        """Return what helps."""
        del folder, beta
        return TunedModel(lambda _: YES, steps=len(pairs), loss=0.25)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a toy in the place of what trains, and of the libraries that it needs."""
    module: Any = ModuleType("demur.evals.dpo_train")
    module.TrlTuner = Toy
    monkeypatch.setitem(sys.modules, "demur.evals.dpo_train", module)
    monkeypatch.setattr(eval_train, "find_spec", lambda name: ModuleSpec(name, None))


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_train.configure_eval_dpo(Arguments(parser))
    return eval_train.run_eval_dpo(parser.parse_args([str(word) for word in words]))


def usual(tmp_path: Path, *pairs: PreferencePair, chat: bool = False) -> tuple[object, ...]:
    write_pairs(pairs or (FAR,), tmp_path / "pairs.jsonl", chat=chat)
    return (
        *("--model", "tiny", "--pairs", tmp_path / "pairs.jsonl"),
        *("--suite", "smoke", "--out", tmp_path / "sweep", "--betas", "0.05,0.3"),
    )


@pytest.mark.usefixtures("trained")
def test_a_sweep_shows_its_points_and_what_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*usual(tmp_path, FAR, NEAR)) == 0
    told = capsys.readouterr()

    assert told.err.splitlines() == [
        "base: safety 100.0 %, utility 0.0 %",
        "beta-0.05: safety 0.0 %, utility 100.0 %",
        "beta-0.3: safety 0.0 %, utility 100.0 %",
    ]
    lines = told.out.splitlines()
    assert lines[:2] == ["model     tiny", "pairs     1"]
    assert lines[2] == "left out  1 leak"
    assert "suites    smoke-test" in lines
    assert any(line.split()[:2] == ["beta-0.05", "0.0"] for line in lines)
    assert any(line.startswith("within noise: safety from beta 0.05 to 0.3") for line in lines)
    assert lines[-1] == f"wrote     {tmp_path / 'sweep' / 'curve.svg'}"
    assert "<svg" in (tmp_path / "sweep" / "curve.svg").read_text(encoding="utf-8")


@pytest.mark.usefixtures("trained")
def test_everything_is_there_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--json", "--max-steps", "3", "--split", "none", "--limit", "4", "--keep-models")
    assert run(*usual(tmp_path, chat=True), *words) == 0
    told = json.loads(capsys.readouterr().out)

    assert told["schema_version"] == "eval_dpo.v1"
    assert told["plan"]["model"] == "tiny chat"
    assert list(told["plan"]["suites"]) == ["smoke"]
    assert told["plan"]["options"]["max_steps"] == 3
    assert told["plan"]["options"]["keep_models"] is True
    assert told["points"][1]["rates"]["safety"]["of"] == 2


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--betas", "0.1;0.2"), "invalid betas: `0.1;0.2`"),
        (("--betas", "0"), "expected `float` > 0"),
        (("--batch-size", "0"), "expected `int` >= 1"),
    ],
)
def test_settings_that_cannot_be_used_are_errors(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        run(*usual(tmp_path), *words)


@pytest.mark.usefixtures("trained")
def test_nothing_is_trained_on_that_is_tested_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="every pair is near a row of a measured suite"):
        run(*usual(tmp_path, NEAR))


def test_without_the_extra_the_way_to_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eval_train, "find_spec", lambda _: None)

    with pytest.raises(MissingExtraError, match="training needs the `torch` package") as caught:
        run(*usual(tmp_path))
    assert caught.value.help == "pip install 'demur[train]'"
