import importlib.util
from pathlib import Path

import pytest
from eval_rows import wait

from demur.errors import MissingExtraError
from demur.evals.target import TargetError
from demur.evals.targets import opening
from demur.evals.targets.opening import TARGET_FORMS, open_target


def test_each_form_opens_its_target(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    head = "schema_version: policy.v1\npolicy_id: p\npolicy_version: 1.0.0\n"
    policy.write_text(f"{head}rules: []\n", encoding="utf-8")
    (tmp_path / "said.jsonl").write_text("{}\n", encoding="utf-8")
    specs = {
        "http://localhost:9/v1": "openai_compatible",
        "https://localhost:9/v1": "openai_compatible",
        "python:builtins:str": "python",
        "command:cat -v": "command",
        f"recorded:{tmp_path}/said.jsonl": "recorded",
        "guards": "guards",
        f"policy:{policy}": "policy",
        "demur-testing-server": "testing-server",
    }
    for spec, kind in specs.items():
        target = open_target(spec)
        assert target.settings["kind"] == kind
        wait(target.close())


def test_options_may_be_texts_of_a_command_line() -> None:
    target = open_target("http://x", temperature="0.5", max_tokens="7", stream="true")

    assert (target.settings["temperature"], target.settings["max_tokens"]) == (0.5, 7)
    assert target.settings["stream"] is True


def test_guards_may_stand_before_another_target() -> None:
    assert open_target("guards", behind="command:cat").name == "guards-cat"


@pytest.mark.parametrize("spec", ["", "nowhere", "ftp://x", "htp:x"])
def test_an_unknown_target_is_named_with_what_there_is(spec: str) -> None:
    with pytest.raises(TargetError, match="unknown target") as caught:
        open_target(spec)

    assert all(form in str(caught.value.help) for form in TARGET_FORMS)


@pytest.mark.parametrize(
    ("name", "help_text"),
    [("temprature", "did you mean `temperature`?"), ("zzz", "one of model, api_key_env")],
)
def test_an_unknown_option_is_named_with_what_there_is(name: str, help_text: str) -> None:
    with pytest.raises(TargetError, match=f"no option `{name}`") as caught:
        open_target("http://x", **{name: 1})

    assert help_text in str(caught.value.help)


def test_an_option_of_the_wrong_kind_is_named() -> None:
    with pytest.raises(TargetError, match="expected `float") as caught:
        open_target("http://x", timeout_s="soon")

    assert caught.value.where == "timeout_s"


@pytest.mark.parametrize("spec", ["http://x", "demur-testing-server"])
def test_without_httpx_the_extra_is_named(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.util.find_spec
    monkeypatch.setattr(opening, "find_spec", lambda n: None if n == "httpx" else known(n))
    with pytest.raises(MissingExtraError) as caught:
        open_target(spec)

    assert caught.value.help == "pip install 'demur[evals]'"
