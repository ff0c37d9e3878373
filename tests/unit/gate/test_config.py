import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gates import KEY, TEXT, refund

from demur.codes.vocabulary import Verdict
from demur.errors import DemurError, InputError, PolicyError
from demur.gate.config import (
    Config,
    find_config,
    find_settings,
    load_config,
    open_configured_spool,
    open_configured_store,
    open_gate,
)
from demur.gate.people import PeopleSettings
from demur.grants.keys import load_trusted_keys
from demur.memory.recall import MemorySettings
from demur.model.record import DecisionRecord
from demur.policy.policy import Mode
from demur.store.spool import Spool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "demur.toml"
    path.write_text(text, encoding="utf-8")
    return path


def settings(folder: Path, **more: Any) -> Config:
    usual = {"policy": str(folder / "policy.yaml"), "store": str(folder / "demur.db")}
    return Config(**{**usual, **more})


@pytest.mark.parametrize("pin", ["1", "1.2", "1.2.0"])
def test_the_settings_may_pin_the_registry(folder: Path, pin: str) -> None:
    assert load_config(written(folder, f'registry = "{pin}"')).registry == pin
    open_gate(settings(folder, registry=pin)).close()


@pytest.mark.parametrize(
    ("pin", "problem"),
    [
        ("1.1", "the core registry has version 1.2.0, not 1.1"),
        ("1.2+acme.com@2", "the registry of `acme.com` is pinned but not loaded"),
        ("", "`` is not a version of the registry"),
    ],
)
def test_settings_for_another_registry_are_refused(folder: Path, pin: str, problem: str) -> None:
    path = written(folder, f'registry = "{pin}"')

    for make, where in (
        (lambda: load_config(path), f"{path}: registry"),
        (lambda: open_gate(settings(folder, registry=pin)), "registry"),
    ):
        with pytest.raises(InputError) as caught:
            make()
        assert (caught.value.where, caught.value.problem) == (where, problem)
        assert caught.value.help


def test_a_version_that_is_no_text_is_refused_with_its_place(folder: Path) -> None:
    with pytest.raises(InputError, match="expected") as caught:
        load_config(written(folder, "registry = 1.2"))

    assert (caught.value.where or "").endswith("demur.toml: registry")


# Finding and reading


def test_the_environment_names_the_file_and_else_the_working_directory_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)

    assert find_config() is None
    assert find_config({"DEMUR_CONFIG": "other.toml"}) == Path("other.toml")
    assert find_config({"DEMUR_CONFIG": ""}) is None
    written(tmp_path, "")
    assert find_config() == Path("demur.toml")
    monkeypatch.setenv("DEMUR_CONFIG", "named.toml")
    assert find_config() == Path("named.toml")


def test_the_nearest_file_above_the_working_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)

    written(tmp_path, "")
    assert find_config() == tmp_path / "demur.toml"
    written(tmp_path / "outer", "")
    assert find_config() == tmp_path / "outer/demur.toml"
    (inner / "demur.db").touch()
    # Commands read the store that `open_enforcer` in the same folder writes.
    assert find_settings() == find_config() == tmp_path / "outer/demur.toml"
    (tmp_path / "outer/demur.toml").unlink()
    (tmp_path / "demur.toml").unlink()
    assert find_config() is None
    assert find_settings() == Path("demur.db")


def test_the_search_ends_at_home_and_leaves_out_files_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    written(tmp_path, "")
    monkeypatch.setenv("HOME", str(home))
    for folder in (home, home / "project"):
        monkeypatch.chdir(folder)
        assert find_config() is None

    monkeypatch.setenv("HOME", "/nowhere")
    assert find_config() == tmp_path / "demur.toml"
    monkeypatch.setattr("demur.gate.config._TRUSTED_OWNERS", {-1})
    assert find_config() is None


def test_paths_in_a_file_are_relative_to_the_file(tmp_path: Path) -> None:
    config = load_config(
        written(
            tmp_path,
            'policy = "p.yaml"\nstore = "d.db"\nregistries = ["r.json"]\n'
            'keys = "k.json"\nspool = "s.jsonl"\n',
        )
    )

    assert config == Config(
        policy=str(tmp_path / "p.yaml"),
        store=str(tmp_path / "d.db"),
        registries=(str(tmp_path / "r.json"),),
        keys=str(tmp_path / "k.json"),
        spool=str(tmp_path / "s.jsonl"),
        people=PeopleSettings(key=str(tmp_path / "people.key")),
    )


def test_the_runs_folder_of_the_service_is_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "demur.toml"
    file.write_text('[service]\nruns = "evals"\nport = 1\n', encoding="utf-8")

    assert load_config(file).service == {"runs": str(tmp_path / "evals"), "port": 1}


def test_a_path_in_an_address_is_relative_to_the_file_too(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, 'store = "sqlite:///x.db"'))

    assert config.store == f"sqlite:///{tmp_path}/x.db"


@pytest.mark.parametrize("store", ["", ":memory:", "sqlite:///", "postgresql://host/db"])
def test_an_address_that_is_no_path_stays_as_it_is(tmp_path: Path, store: str) -> None:
    assert load_config(written(tmp_path, f'store = "{store}"\nspool = ""')).store == store


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, ""))

    assert config.memory == MemorySettings()
    assert not config.memory.lift
    assert config.mode is None
    assert config.redaction == "default"
    assert config.attempts == 3


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("memory = false", None),
        ("[memory]\nlift = true", MemorySettings(lift=True)),
        ("[memory]\nblock = 1", MemorySettings(block=1.0)),
    ],
)
def test_memory_can_be_set_and_switched_off(
    tmp_path: Path, text: str, memory: MemorySettings | None
) -> None:
    assert load_config(written(tmp_path, text)).memory == memory


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("nothing = 1", "", "unknown setting `nothing`"),
        ("mode = 'loud'", ": mode", "invalid enum value 'loud'"),
        ("redaction = 5", ": redaction", "expected `str`"),
        ("attempts = 0", ": attempts", ">= 1"),
        ("attempts = true", ": attempts", "expected `int`"),
        ("deadline_s = nan", ": deadline_s", "> 0"),
        ("deadline_s = -1", ": deadline_s", "> 0"),
        ("durability = 'some'", ": durability", "invalid enum value"),
        ("[memory]\nblok = 1", ": memory", "unknown setting `blok`"),
        ("[memory]\nblock = 7", ": memory", "at most 1"),
        ("[memory]\nescalate = 0.99", ": memory", "above `block`"),
        ("memory = 5", ": memory", "expected `object"),
        ("memory = true", ": memory", "expected `object"),
        ("policy = ", "", "not TOML"),
        ("a = " + "[" * 3000, "", "not TOML"),
        ("attempts = " + "9" * 5000, "", "not TOML"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    tmp_path: Path, text: str, where: str, problem: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=problem) as caught:
        load_config(path)

    assert caught.value.where == f"{path}{where}"
    assert "\n" not in caught.value.problem


@pytest.mark.parametrize("name", ["nothing.toml", ".", "\0"])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        load_config(f"{tmp_path}/{name}")


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "demur.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not TOML"):
        load_config(tmp_path / "demur.toml")


# Opening


def test_a_gate_is_opened_as_the_settings_say(folder: Path) -> None:
    told = list[DecisionRecord]()
    config = settings(
        folder,
        mode=Mode.ADVISORY,
        redaction="strict",
        redact_paths=("trace",),
        memory=None,
        durability="normal",
        deadline_s=5.0,
    )
    with open_gate(config, sinks=(told.append,)) as gate:
        record = gate.decide(refund(400, trace={"x": 1}))

        assert gate.store is not None
        assert gate.store.info()["durability"] == "normal"
    assert record["enforced"] is False
    assert record["redaction"]["removed"] == ["evidence", "trace"]
    assert told == [record]


def test_organisations_codes_count(folder: Path, acme_text: Any) -> None:
    registry = folder / "acme.json"
    registry.write_text(acme_text({"code": "acme.com/KYC_EXPIRED", "title": "KYC"}))
    policy = TEXT.replace("CHARGEBACK_RISK_BLOCK", "acme.com/KYC_EXPIRED")
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    risky = refund(evidence={"ticket_id": "T", "chargeback_risk": 1})
    with open_gate(settings(folder, registries=(str(registry),))) as gate:
        assert "acme.com/KYC_EXPIRED" in gate.decide(risky).reason_codes
    with pytest.raises(PolicyError, match="unknown reason code"):
        open_gate(settings(folder))


def test_without_a_store_nothing_is_kept(folder: Path) -> None:
    config = settings(folder, store="")
    with open_gate(config) as gate:
        assert gate.store is None
        assert gate.decide(refund()).verdict is Verdict.ALLOW
    assert open_configured_store(config) is None
    assert sorted(path.name for path in folder.iterdir()) == ["policy.yaml"]


@pytest.mark.parametrize(
    "more",
    [
        {"redaction": "none"},
        {"redact_paths": ("subject",)},
        {"redact_paths": ("subject",), "store": ""},
        {"keys": "nothing.json"},
        {"policy": "nothing.yaml"},
        {"attempts": 0},
    ],
)
def test_a_setting_that_fails_leaves_nothing_open(folder: Path, more: dict[str, Any]) -> None:
    # A connection that nobody closes is a warning, and warnings are errors here.
    with pytest.raises(DemurError):
        open_gate(settings(folder, **more))


@pytest.mark.parametrize(
    ("store", "spool", "place"),
    [
        ("a.db", None, "a.db.spool.jsonl"),
        ("a.db", "s.jsonl", "s.jsonl"),
        ("a.db", "", None),
        ("", None, None),
        (":memory:", None, None),
        ("postgresql://x/y", None, None),
        ("postgresql://x/y", "s.jsonl", "s.jsonl"),
    ],
)
def test_the_spool_is_next_to_the_database_unless_named(
    store: str, spool: str | None, place: str | None
) -> None:
    found = open_configured_spool(Config(store=store, spool=spool))

    assert (None if found is None else str(found.path)) == place


# Keys


def test_keys_are_one_or_a_list(tmp_path: Path) -> None:
    one, many = tmp_path / "one.json", tmp_path / "many.json"
    one.write_bytes(msgspec.json.encode(KEY.trusted_key()))
    many.write_bytes(msgspec.json.encode([KEY.trusted_key()]))

    assert (
        dict(load_trusted_keys(str(one)))
        == dict(load_trusted_keys(str(many)))
        == {"k1": KEY.trusted_key()}
    )
    assert dict(load_trusted_keys(None)) == {}


@pytest.mark.parametrize("raw", [b"", b"5", b'[{"key_id": "k"}]', b"\xff", b"[" * 10**5])
def test_a_file_without_keys_is_an_error(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        load_trusted_keys(str(path))

    assert caught.value.where == str(path)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_spool_on_the_disk_of_the_store_is_named_at_the_start(
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: bool,
) -> None:
    # No test machine has a second disk for sure.
    monkeypatch.setattr(Spool, "shares_disk", lambda *_: not elsewhere)
    with caplog.at_level(logging.INFO, "demur"):
        open_gate(settings(folder)).close()

    assert ("a full disk stops both" in caplog.text) is not elsewhere
