"""Keys that the service keeps for people: sealed, certified, and retired with the role."""

import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gates import NOON, gate_over, opened, refund, stored
from support.people import AUTHOR, SERVICE_KEY, add_person

from demur.codes.vocabulary import Verdict
from demur.errors import GrantError, InputError
from demur.gate.config import load_config, open_gate
from demur.gate.gate import Gate
from demur.gate.people import PeopleSettings, load_issuers, signing_key_of
from demur.grants import KeyRing, SigningKey, sign_grant
from demur.grants.person_keys import ServiceKey
from demur.model.grant import Grant
from demur.store.opening import open_store
from demur.store.people_tables import PersonChange
from demur.store.store import Store

ISSUERS = KeyRing([SERVICE_KEY.issuer.trusted_key()])
OTHER_KEY = ServiceKey(bytes(32))
LARGE = refund(900)


def key_of(store: Store, login: str = "mary", service_key: ServiceKey = SERVICE_KEY) -> SigningKey:
    return signing_key_of(store, service_key, login, NOON)


def approval(key: SigningKey, **fields: Any) -> Grant:
    usual: dict[str, Any] = {
        "grant_id": "g1",
        "kind": "approval",
        "granted_to": "agent:billing",
        "scope": {"action": "refund", "tenant": "default"},
        "not_before": NOON - timedelta(hours=1),
        "expires_at": NOON + timedelta(hours=1),
    }
    return sign_grant(key, **{**usual, **fields})


def decided(gate: Gate, grant: Grant) -> tuple[Verdict, str | None]:
    """Return the verdict on a large refund, and why the grant did not count."""
    record = gate.decide(LARGE, grants=[grant])
    return record.verdict, record.ignored_grants[0].why if record.ignored_grants else None


def test_a_grant_of_a_person_counts_by_the_certificate_alone() -> None:
    with opened(issuers=ISSUERS) as gate:
        add_person(stored(gate))
        key = key_of(stored(gate))

        assert (key.key_id, key.holder) == ("person:mary:1", "person:mary")
        assert decided(gate, approval(key)) == (Verdict.ALLOW, None)
        assert key_of(stored(gate)) == key


@pytest.mark.parametrize("change", [PersonChange(disabled=True), PersonChange(role="reader")])
def test_a_key_ends_with_the_role_and_a_new_role_has_a_new_key(change: PersonChange) -> None:
    with opened(issuers=ISSUERS) as gate:
        store = stored(gate)
        add_person(store)
        signed = approval(key_of(store))
        store.change_person("mary", change, **AUTHOR)

        assert decided(gate, signed) == (Verdict.ESCALATE, "key_retired")
        with pytest.raises(InputError, match="may not approve"):
            key_of(store)

        store.change_person("mary", PersonChange(role="approver", disabled=False), **AUTHOR)
        assert decided(gate, signed) == (Verdict.ESCALATE, "key_retired")
        key = key_of(store)
        assert key.key_id == "person:mary:2"
        assert decided(gate, approval(key, grant_id="g2")) == (Verdict.ALLOW, None)


@pytest.mark.parametrize(
    ("issuers", "why"),
    [
        (KeyRing(), "unknown_key"),
        (KeyRing([OTHER_KEY.issuer.trusted_key()]), "key_not_certified"),
    ],
)
def test_without_the_issuer_no_key_of_a_person_counts(issuers: KeyRing, why: str) -> None:
    with opened(issuers=issuers) as gate:
        add_person(stored(gate))

        assert decided(gate, approval(key_of(stored(gate)))) == (Verdict.ESCALATE, why)


def test_a_key_that_somebody_wrote_into_the_store_counts_for_nothing() -> None:
    with opened(issuers=ISSUERS) as gate:
        store = stored(gate)
        add_person(store)
        key_of(store)
        [row] = store.list_person_keys("mary")
        own = SigningKey.from_randomness(
            bytes(32), key_id="person:ann:1", holder="person:ann", algorithm="ed25519"
        )
        add_person(store, "ann")
        forged = row._replace(key_id=own.key_id, login="ann", public_key=own.trusted_key().material)
        assert store.add_person_key(forged) == forged

        assert decided(gate, approval(own)) == (Verdict.ESCALATE, "key_not_certified")


@pytest.mark.parametrize("issuers", [KeyRing(), ISSUERS])
def test_a_file_of_keys_holds_none_of_a_person(issuers: KeyRing) -> None:
    """A file cannot say that a key was retired, so it would outlive the role."""
    own = SigningKey.from_randomness(
        bytes(32), key_id="person:mary:1", holder="person:mary", algorithm="ed25519"
    )
    with opened(issuers=issuers, keys=KeyRing([own.trusted_key()])) as gate:
        assert decided(gate, approval(own)) == (Verdict.ESCALATE, "unknown_key")


def test_a_person_signs_for_their_own_tenant_only() -> None:
    with opened(issuers=ISSUERS) as gate:
        add_person(stored(gate), tenant="acme")
        key = key_of(stored(gate))
        with pytest.raises(GrantError, match="may not grant for the tenant"):
            approval(key)
        wide = msgspec.structs.replace(key, tenants=())

        assert decided(gate, approval(wide)) == (Verdict.ESCALATE, "tenant_not_permitted")


def test_a_person_of_all_tenants_signs_for_each() -> None:
    with opened(issuers=ISSUERS) as gate:
        add_person(stored(gate), tenant="")

        assert decided(gate, approval(key_of(stored(gate))))[0] is Verdict.ALLOW


@pytest.mark.parametrize("role", ["reader", "reviewer"])
def test_who_does_not_approve_has_no_key(role: str) -> None:
    with open_store(":memory:") as store:
        add_person(store, role=role)
        with pytest.raises(InputError, match="may not approve"):
            key_of(store)
        with pytest.raises(InputError, match="may not approve"):
            key_of(store, "nobody")

        assert store.list_person_keys("mary") == []


def test_a_new_service_key_replaces_the_keys_of_people() -> None:
    with open_store(":memory:") as store:
        add_person(store)
        key_of(store)
        renewed = key_of(store, service_key=OTHER_KEY)

        assert renewed.key_id == "person:mary:2"
        states = [one.retired_at is None for one in store.list_person_keys("mary")]
        assert states == [False, True]


def test_the_store_never_holds_a_secret_in_plain(tmp_path: Path) -> None:
    path = tmp_path / "demur.db"
    with open_store(path) as store:
        add_person(store)
        secret = key_of(store).secret
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())

    assert secret.encode() not in raw
    assert b"person:mary:1" in raw


def test_a_sealed_secret_that_was_changed_or_moved_does_not_open() -> None:
    with open_store(":memory:") as store:
        for login in ("mary", "ann"):
            add_person(store, login)
        mary, ann = key_of(store), key_of(store, "ann")
        [sealed] = [one.sealed_secret for one in store.list_person_keys("mary")]

    assert SERVICE_KEY.unseal(mary.trusted_key(), sealed) == mary
    for key, text in ((ann, sealed), (mary, f"AAAA{sealed[4:]}"), (mary, ""), (mary, "?")):
        with pytest.raises(GrantError, match="cannot be decrypted"):
            SERVICE_KEY.unseal(key.trusted_key(), text)
    with pytest.raises(GrantError, match="cannot be decrypted"):
        OTHER_KEY.unseal(mary.trusted_key(), sealed)


def write_key(path: Path, mode: int = 0o600) -> Path:
    path.write_bytes(SERVICE_KEY.to_json())
    path.chmod(mode)
    return path


def test_a_service_key_is_read_from_its_file_and_never_shown(tmp_path: Path) -> None:
    key = ServiceKey.from_file(write_key(tmp_path / "people.key"))

    assert key.issuer == SERVICE_KEY.issuer
    assert repr(key) == f"<ServiceKey {key.issuer.key_id}>"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_file_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    path = write_key(tmp_path / "people.key", mode)

    with pytest.raises(GrantError, match=f"its mode is {mode:04o}") as caught:
        ServiceKey.from_file(path)
    assert caught.value.help == f"chmod 600 {path}"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("content", [b"", b"{}", b'{"secret": "AAAA"}', b'{"secret": "\\u00e9"}'])
def test_a_file_without_a_key_says_what_makes_one(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "people.key"
    with pytest.raises(GrantError, match="there is no service key") as caught:
        ServiceKey.from_file(path)
    assert "demur people init" in str(caught.value)

    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(GrantError) as caught:
        ServiceKey.from_file(path)
    assert "demur people init" in str(caught.value)


def test_a_gate_trusts_the_service_key_beside_its_settings(tmp_path: Path) -> None:
    write_key(tmp_path / "people.key")
    (tmp_path / "policy.yaml").write_text(
        "schema_version: policy.v1\npolicy_id: p\npolicy_version: 1.0.0\n"
        "defaults: {verdict: ALLOW}\nrules: []\n"
    )
    (tmp_path / "demur.toml").write_text('policy = "policy.yaml"\n')
    config = load_config(tmp_path / "demur.toml")

    assert config.people.key == str(tmp_path / "people.key")
    assert dict(load_issuers(config.people)) == dict(ISSUERS)
    os.chmod(tmp_path / "people.key", 0o644)  # noqa: PTH101 - what the test is about
    with pytest.raises(GrantError, match="its mode is 0644"):
        open_gate(config)


def test_a_gate_that_cannot_read_the_key_trusts_a_file_of_issuers(tmp_path: Path) -> None:
    path = tmp_path / "people.trusted.json"
    path.write_bytes(msgspec.json.encode(SERVICE_KEY.issuer.trusted_key()))

    assert dict(load_issuers(PeopleSettings(key="absent", trusted=str(path)))) == dict(ISSUERS)
    assert not load_issuers(PeopleSettings(key=str(tmp_path / "absent")))


def test_a_store_that_is_gone_lets_no_grant_of_a_person_count(tmp_path: Path) -> None:
    with gate_over(open_store(tmp_path / "demur.db"), issuers=ISSUERS) as gate:
        add_person(stored(gate))
        signed = approval(key_of(stored(gate)))
    with gate_over(None, issuers=ISSUERS) as gate:
        assert decided(gate, signed) == (Verdict.ESCALATE, "unknown_key")
