"""Trained classifiers as scorers: the model file, its card, and what settings may change."""

import io
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.gates import CORE

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.errors import InputError, MissingExtraError
from demur.gate.config import load_config
from demur.gate.guard_pipeline import build_pipeline
from demur.model.finding import Action
from demur.scorers import trained
from demur.scorers.brought import BroughtModel, open_scorer
from demur.scorers.contract import ScorerText
from demur.scorers.settings import ModelSettings
from demur.scorers.trained import GuardCard, GuardWeights, find_features, write_guard_file

CARD = GuardCard(
    name="heron",
    code="TOPIC_DENIED",
    action=Action.ESCALATE,
    threshold=0.6,
    max_false_holds=0.05,
    confidence=0.95,
    hold_rows=50,
    allow_rows=70,
    allow_groups=70,
    rows_digest="sha256:0",
    l2=0.001,
    folds=10,
    seed=0,
)
WEIGHTS = GuardWeights(find_features("heron"), [3.0] * len(find_features("heron")), -3.0)


def save(folder: Path, weights: GuardWeights = WEIGHTS, **more: Any) -> Path:
    path = folder / "heron.npz"
    with path.open("wb") as file:
        write_guard_file(msgspec.structs.replace(CARD, **more), weights, file)
    return path


def opened(path: Path, **more: Any) -> BroughtModel:
    settings = ModelSettings(kind="trained", file=str(path), **more)
    return open_scorer("heron", settings, registry=CORE)


def test_a_text_above_the_threshold_is_flagged(tmp_path: Path) -> None:
    scorer = opened(save(tmp_path))
    held, allowed = scorer.score([ScorerText("The HERON?"), ScorerText("a wren")])

    assert held.flagged == {"hold"}
    assert held.scores["hold"] > 0.9
    assert not allowed.flagged
    assert allowed.scores == {"hold": 0.0474}
    meaning = scorer.meanings["hold"]
    assert (meaning.code, meaning.action) == ("TOPIC_DENIED", Action.ESCALATE)
    assert (scorer.model, scorer.is_local) == ("heron.npz", True)


def test_a_long_text_is_scored_in_parts(tmp_path: Path) -> None:
    [found] = opened(save(tmp_path)).score([ScorerText("wren " * 600 + "heron " * 60)])

    assert found.flagged == {"hold"}


def test_hidden_characters_do_not_hide_a_word(tmp_path: Path) -> None:
    [found] = opened(save(tmp_path)).score([ScorerText("he\u200bro\u00adn")])

    assert found.flagged == {"hold"}


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    first = opened(save(tmp_path)).digest
    again = opened(save(tmp_path)).digest
    other = opened(save(tmp_path, threshold=0.7)).digest

    assert first == again != other
    assert first.startswith("sha256:")


def test_settings_weaken_the_action_and_never_strengthen_it(tmp_path: Path) -> None:
    path = save(tmp_path)

    assert opened(path, action=Action.WARN).meanings["hold"].action is Action.WARN
    assert opened(path, action=Action.BLOCK).meanings["hold"].action is Action.ESCALATE
    blocking = save(tmp_path, action=Action.BLOCK)
    assert opened(blocking).meanings["hold"].action is Action.BLOCK


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("codes", {"hold": "CONTENT_FRAUD"}),
        ("actions", {"hold": Action.BLOCK}),
        ("flag_above", 0.3),
    ],
)
def test_a_setting_does_not_replace_what_was_trained(
    tmp_path: Path, field: str, value: Any
) -> None:
    with pytest.raises(InputError, match="belongs to the model file") as caught:
        opened(save(tmp_path), **{field: value})
    assert caught.value.where == f"guards.models.heron.{field}"


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("CONTENT_CYBER", "is a hard block"),
        ("NO_SUCH_CODE", "is not registered"),
        ("GUARDRAIL_UNAVAILABLE", "is not a code that refuses"),
    ],
)
def test_a_code_that_no_classifier_can_decide_is_refused(
    tmp_path: Path, code: str, problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        opened(save(tmp_path, code=code))
    assert caught.value.where == "guards.models.heron.file"


def test_other_settings_of_local_models_do_not_belong_here(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no setting of the kind `trained`"):
        opened(save(tmp_path), labels=("a",))
    with pytest.raises(InputError, match="the kind `trained` needs `file`"):
        open_scorer("heron", ModelSettings(kind="trained"), registry=CORE)


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def arrays_of(path: Path, **changes: Any) -> dict[str, Any]:
    with np.load(path) as held:
        return {**held, **changes}


def test_a_file_that_is_not_a_model_is_an_error(tmp_path: Path) -> None:
    path = save(tmp_path)
    weights = np.array([np.nan] * len(WEIGHTS.features))
    broken = {
        "checksum is wrong": npz(**arrays_of(path, bias=np.array(9.0))),
        "other parts": npz(**arrays_of(path, more=np.zeros(1))),
        "not a zip file": b"\x00" * 50,
        "Object arrays": npz(**arrays_of(path, bias=np.array([{}], dtype=object))),
        "missing required field": npz(**arrays_of(path, card=np.frombuffer(b"{}", np.uint8))),
    }
    for problem, content in broken.items():
        path.write_bytes(content)
        with pytest.raises(InputError, match=problem) as caught:
            opened(path)
        assert "demur guard train" in str(caught.value.help)

    save(tmp_path, GuardWeights(WEIGHTS.features, weights.tolist(), 0.0))
    with pytest.raises(InputError, match="not numbers"):
        opened(path)
    save(tmp_path, GuardWeights(WEIGHTS.features, [1.0], 0.0))
    with pytest.raises(InputError, match="do not match"):
        opened(path)
    path.unlink()
    with pytest.raises(InputError, match="cannot read `heron"):
        opened(path)


def test_a_file_that_unpacks_to_too_much_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trained, "MAX_MODEL_BYTES", 100)
    with pytest.raises(InputError, match="more than 100 bytes"):
        opened(save(tmp_path))


def test_without_numpy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path)

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(trained, "import_module", missing)
    with pytest.raises(MissingExtraError, match="need the `numpy` package"):
        opened(path)


def test_settings_name_the_file_beside_them(tmp_path: Path) -> None:
    save(tmp_path)
    config = tmp_path / "demur.toml"
    model = '[guards.models.heron]\nkind = "trained"\nfile = "heron.npz"\n'
    config.write_text(f"[guards]\nlearned = false\n{model}", encoding="utf-8")
    guards = load_config(config).guards
    enforcer = Enforcer(pipeline=build_pipeline(guards, Surface.INPUT, registry=CORE))
    result = enforcer.check_prompt("Heron!")

    assert result.line == "REFUSED: TOPIC_DENIED: the model `heron` flags `hold`"
    assert enforcer.check_prompt("A wren.").allowed
