"""An enforcer in one line, with settings and without."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demur.enforce.opening import build_enforcer, open_enforcer, read_agent_policy
from demur.errors import DemurError, InputError
from demur.gate.config import Config
from demur.gate.gate import Gate
from demur.policy.loader import load_policy, parse_policy
from demur.store.opening import open_store

STRICT = """
schema_version: policy.v1
policy_id: strict
policy_version: 1.0.0
rules: []
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)


def test_without_settings_guards_decide_and_records_are_kept_here() -> None:
    with open_enforcer(subject={"id": "bot", "type": "agent"}) as enforcer:
        assert enforcer.check_tool_call("search", {"query": "weather"}).allowed
        assert not enforcer.check_tool_call("bash", {"command": "rm -rf /"}).allowed
    with open_store("demur.db") as store:
        assert len(list(store.find_records())) == 2
    assert Path("demur.db").stat().st_mode & 0o777 == 0o600


def test_settings_of_guards_that_are_no_settings_are_named() -> None:
    with pytest.raises(InputError, match="unknown setting `lcale`") as caught:
        build_enforcer(None, {"lcale": "de"})  # type: ignore[arg-type]
    assert (caught.value.where, caught.value.help) == ("guards", "did you mean `locale`?")


def test_guards_are_those_of_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        STRICT.replace("rules", "defaults: { verdict: ALLOW }\nrules"), encoding="utf-8"
    )
    path = tmp_path / "demur.toml"
    path.write_text(
        'store = ""\n[guards]\nlocale = "de-DE"\n[guards.tools.run_sql]\ncommand = "statement"\n',
        encoding="utf-8",
    )
    with open_enforcer(path) as enforcer:
        assert enforcer.locale == "de-DE"
        assert not enforcer.check_tool_call("run_sql", {"statement": "rm -rf /"}).allowed
    with open_enforcer(path, locale="fr-FR", commands={"do": "it"}) as enforcer:
        assert enforcer.locale == "fr-FR"
        assert not enforcer.check_tool_call("do", {"it": "rm -rf /"}).allowed
        assert not enforcer.check_tool_call("run_sql", {"statement": "rm -rf /"}).allowed


# Steps of agents that spend and destroy nothing, whatever their arguments are called.
ORDINARY_STEPS: list[tuple[str, dict[str, Any]]] = [
    ("log_medication", {"drug": "paracetamol", "amount": 850}),
    ("scroll", {"direction": "down", "amount": 500}),
    ("calculate_vat", {"amount": 1200, "currency": "EUR", "rate": 0.19}),
    ("convert_currency", {"amount": 5000, "currency": "USD", "to": "EUR"}),
    ("add_ingredient", {"name": "flour", "amount": "2 cups"}),
    ("quote_price", {"amount": 101, "currency": "JPY"}),
    ("set_volume", {"amount": {"value": 300, "unit": "ml"}}),
    ("plot", {"amount": [120, 340, 560]}),
    ("mix", {"amount": "half", "currency": "cups"}),
    ("count_words", {"amount": None}),
    ("checkout", {"total": 900, "amount_cents": 90000}),
    ("delete", {"selection": "paragraph 3"}),
    ("drop_table", {"name": "scratch"}),
]


@pytest.mark.parametrize(("tool", "arguments"), ORDINARY_STEPS)
def test_the_default_policy_holds_no_business_rule(tool: str, arguments: dict[str, Any]) -> None:
    with open_enforcer(store=None) as enforcer:
        assert enforcer.check_tool_call(tool, arguments).line == ""


@pytest.mark.parametrize("form", [str, Path, load_policy])
def test_a_policy_can_be_named(form: Callable[[str], Any]) -> None:
    Path("strict.yaml").write_text(STRICT, encoding="utf-8")
    with open_enforcer(policy=form("strict.yaml")) as enforcer:
        assert not enforcer.check_prompt("hello").allowed
    assert Path("demur.db").exists()


@pytest.mark.parametrize("form", [str, Path, open_store])
def test_a_store_can_be_named(form: Callable[[str], Any]) -> None:
    with open_enforcer(store=form("own.db")) as enforcer:
        assert enforcer.check_prompt("hello").record is not None
    with open_store("own.db") as store:
        assert len(list(store.find_records())) == 1
    assert not Path("demur.db").exists()


def test_without_a_store_nothing_is_kept() -> None:
    with open_enforcer(store=None) as enforcer:
        assert enforcer.check_prompt("hello").allowed
    assert list(Path().iterdir()) == []


def test_arguments_replace_what_the_settings_say() -> None:
    Path("strict.yaml").write_text(STRICT, encoding="utf-8")
    Path("demur.toml").write_text('policy = "gone.yaml"\nstore = "own.db"\n', encoding="utf-8")
    with open_enforcer(policy="strict.yaml") as enforcer:
        assert not enforcer.check_prompt("hello").allowed
    assert Path("own.db").exists()


@pytest.mark.parametrize(
    ("call", "problem", "help_text"),
    [
        (lambda: open_enforcer("policy.yaml"), "this is YAML", "policy='policy.yaml'"),
        (lambda: open_enforcer(policy=3), "policy must be a `Policy` or a path, not `int`", None),  # type: ignore[arg-type]
        (lambda: open_enforcer(store=3), "store must be a `Store`, None or a path", None),  # type: ignore[arg-type]
        (lambda: open_enforcer(3), "config must be a `Config` or a path, not `int`", None),  # type: ignore[arg-type]
        (lambda: open_enforcer(policy="gone.yaml"), "cannot read", None),
        (lambda: Gate("policy.yaml"), "policy must be a `Policy`, not `str`", "load_policy"),  # type: ignore[arg-type]
        (lambda: Gate(None), "policy must be a `Policy`, not `NoneType`", "load_policy"),  # type: ignore[arg-type]
        (
            lambda: Gate(parse_policy(STRICT), "demur.db"),  # type: ignore[arg-type]
            "store must be a `Store` or None, not `str`",
            "open_store",
        ),
    ],
)
def test_a_wrong_argument_is_named_with_help(
    call: Callable[[], object], problem: str, help_text: str | None
) -> None:
    with pytest.raises(DemurError, match=re.escape(problem)) as caught:
        call()
    assert help_text is None or help_text in str(caught.value.help)


def test_a_settings_file_here_is_gone_by() -> None:
    Path("policy.yaml").write_text(STRICT, encoding="utf-8")
    Path("demur.toml").write_text('policy = "policy.yaml"\nstore = "own.db"\n', encoding="utf-8")
    with open_enforcer() as enforcer:
        assert not enforcer.check_prompt("hello").allowed

    assert Path("own.db").exists()
    assert not Path("demur.db").exists()


def test_open_enforcer_accepts_a_config() -> None:
    Path("policy.yaml").write_text(STRICT, encoding="utf-8")
    with open_enforcer(Config(policy="policy.yaml", store="")) as enforcer:
        assert not enforcer.check_prompt("hello").allowed


def test_a_failed_open_enforcer_leaves_nothing_open() -> None:
    with pytest.raises(TypeError, match="colour"):
        open_enforcer(colour="blue")


def test_settings_that_are_not_there_are_an_error() -> None:
    with pytest.raises(InputError, match="cannot read the settings"):
        open_enforcer("nowhere.toml")


def test_the_policy_of_agents_can_be_read() -> None:
    assert parse_policy(read_agent_policy()).policy_id == "agent"


def test_a_store_that_is_down_refuses_each_check_until_it_can_be_reached(tmp_path: Path) -> None:
    with open_enforcer(store=tmp_path / "later" / "demur.db") as enforcer:
        down = enforcer.check_tool_call("ls", {"path": "."})
        (tmp_path / "later").mkdir()
        up = enforcer.check_tool_call("ls", {"path": "."})

    assert not down.allowed
    assert down.refusal is not None
    assert down.refusal.code == "STORAGE_UNAVAILABLE"
    assert up.allowed
