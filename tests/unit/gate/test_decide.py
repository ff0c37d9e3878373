import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.gates import KEY, NOON, TEXT, finding, grant, refund

import demur
from demur.codes.vocabulary import Verdict
from demur.errors import DemurError, InputError, PolicyError
from demur.gate.config import Config, cached_gate, close_gates, decide
from demur.grants import SigningKey
from demur.model.grant import Grant

_SECONDS = iter(range(1, 1000))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "policy.yaml").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    yield tmp_path
    close_gates()


def signed_for_long() -> Grant:
    """Return an approval that holds whatever the machine's clock says."""
    given = grant({"action": "refund"}, expires_at=NOON.replace(year=2200))
    early = msgspec.structs.replace(given, not_before=NOON.replace(year=2020), signature="")
    return msgspec.structs.replace(early, signature=KEY.sign(early.signed_bytes()))


def replace(path: Path, text: str | bytes) -> None:
    """Write a file so that its time differs, however coarse the clock of the disk is."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    later = path.stat().st_mtime_ns + next(_SECONDS) * 10**9
    os.utime(path, ns=(later, later))


def test_one_line_decides_by_the_settings_in_the_working_directory(folder: Path) -> None:
    (folder / "demur.toml").write_text('store = "d.db"', encoding="utf-8")
    record = demur.decide(refund(400))

    assert record.verdict is Verdict.ESCALATE
    assert record["reason_codes"] == ["REFUND_OVER_ESCALATION_LIMIT"]
    assert (folder / "d.db").exists()


def test_settings_come_as_a_value_or_as_a_file(folder: Path) -> None:
    (folder / "demur.toml").write_text('store = ""', encoding="utf-8")
    for config in (Config(store=""), folder / "demur.toml", str(folder / "demur.toml")):
        assert decide(refund(), config=config).verdict is Verdict.ALLOW


def test_findings_signals_and_grants_passed_with_the_request_count(folder: Path) -> None:
    config = Config(store="", keys="keys.json")
    (folder / "keys.json").write_bytes(msgspec.json.encode([KEY.trusted_key()]))

    assert decide(refund(), config=config, findings=[finding()]).verdict is Verdict.DENY
    assert decide(refund(), config=config, tenant="acme", signals={"a": 1}).tenant == "acme"
    signed = signed_for_long()
    assert decide(refund(400), config=config, grants=[signed]).verdict is Verdict.ALLOW


@pytest.mark.parametrize("store", ["later/d.db", "postgresql://127.0.0.1:1/d?connect_timeout=2"])
def test_a_store_that_is_down_at_the_first_request_abstains(store: str, folder: Path) -> None:
    config = Config(store=store, spool="spool.jsonl")
    first = decide(refund(), config=config)

    assert (first.verdict, first.reason_codes) == (Verdict.ABSTAIN, ("STORAGE_UNAVAILABLE",))
    assert first.chain is None
    assert len((folder / "spool.jsonl").read_text(encoding="utf-8").splitlines()) == 1
    if store == "later/d.db":
        (folder / "later").mkdir()
        assert decide(refund(), config=config).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("store", "problem"), [(".", "this is a folder"), ("mysql://x", "`mysql://`")]
)
@pytest.mark.usefixtures("folder")
def test_a_setting_that_names_no_store_is_an_error_with_help(store: str, problem: str) -> None:
    with pytest.raises(DemurError, match=problem) as caught:
        decide(refund(), config=Config(store=store))

    assert caught.value.help


@pytest.mark.usefixtures("folder")
def test_without_settings_there_is_an_error_that_helps() -> None:
    with pytest.raises(InputError, match="no settings") as caught:
        decide(refund())

    assert "demur init" in str(caught.value.help)


@pytest.mark.parametrize("config", ["nothing.toml", "\0", Path("nothing.toml")])
@pytest.mark.usefixtures("folder")
def test_settings_that_cannot_be_read_are_an_error(config: str | Path) -> None:
    with pytest.raises(InputError):
        decide(refund(), config=config)


@pytest.mark.usefixtures("folder")
def test_a_gate_is_opened_once_for_the_same_settings() -> None:
    one = cached_gate(Config(store=":memory:"))

    assert cached_gate(Config(store=":memory:")) is one
    assert cached_gate(Config(store="")) is not one


def test_a_policy_that_changes_counts_at_once(folder: Path) -> None:
    config = Config(store="d.db")
    before = cached_gate(config)
    assert decide(refund(300), config=config).verdict is Verdict.ESCALATE
    replace(folder / "policy.yaml", TEXT.replace("250", "350"))

    assert decide(refund(300), config=config).verdict is Verdict.ALLOW
    assert cached_gate(config) is not before


def test_a_policy_that_is_broken_is_an_error_until_it_is_mended(folder: Path) -> None:
    config = Config(store="d.db")
    decide(refund(), config=config)
    replace(folder / "policy.yaml", "rules: [")
    with pytest.raises(PolicyError):
        decide(refund(), config=config)
    (folder / "policy.yaml").unlink()
    with pytest.raises(PolicyError):
        decide(refund(), config=config)
    replace(folder / "policy.yaml", TEXT)

    assert decide(refund(), config=config).verdict is Verdict.ALLOW


def test_a_key_that_is_taken_away_is_no_longer_trusted(folder: Path) -> None:
    config = Config(store="", keys="keys.json")
    signed = signed_for_long()
    replace(folder / "keys.json", msgspec.json.encode([KEY.trusted_key()]))
    assert decide(refund(400), config=config, grants=[signed]).verdict is Verdict.ALLOW
    other = SigningKey.from_randomness(b"o" * 32, key_id="other", holder="user:olga")
    replace(folder / "keys.json", msgspec.json.encode([other.trusted_key()]))

    record = decide(refund(400), config=config, grants=[signed])
    assert [one.why for one in record.ignored_grants] == ["unknown_key"]


def test_settings_that_change_count_at_once(folder: Path) -> None:
    path = folder / "demur.toml"
    replace(path, 'store = ""\nmode = "enforce"')
    assert decide(refund(400)).enforced
    replace(path, 'store = ""\nmode = "advisory"')

    assert not decide(refund(400)).enforced


@pytest.mark.usefixtures("folder")
def test_gates_can_be_closed_and_open_again() -> None:
    config = Config(store="d.db")
    first = cached_gate(config)
    close_gates()

    assert first.decide(refund()).reason_codes == ("STORAGE_UNAVAILABLE",)
    assert decide(refund(), config=config).verdict is Verdict.ALLOW
