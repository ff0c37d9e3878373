"""Packs: no byte can be changed unseen, and nothing but a pack error comes of any bytes."""

import json
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.gates import KEY, cleanup, finding, grant, opened, refund, stored
from support.packs import Members, changed_record, changed_sealed, forged, packed, repaired
from support.property_runs import examples

from demur.audit.diff import Unreplayable
from demur.audit.pack import PackError, read_pack, read_zip, write_pack, write_zip
from demur.audit.replay import replay_pack
from demur.audit.report import export_pack, read_snapshot
from demur.canonical import canonical_bytes
from demur.memory.recall import MemorySettings
from demur.policy.loader import digest_policy
from demur.store.backend import StorageError

# Each of these reads a whole registry again.
FEW = settings(max_examples=examples(40))
PACKS = ("plain", "memory", "grant", "resolution", "signed")


@cache
def packs() -> dict[str, bytes]:
    """Return packs that have every kind of member between them."""
    with opened(memory=MemorySettings()) as gate:
        plain = gate.decide(refund(400, request_id="r", evidence={"ticket_id": "T-ä"}))
        granted = gate.decide(
            refund(400), grants=[grant({"action": "refund"})], findings=[finding("RCE_RISK")]
        )
        asked = gate.decide(cleanup())
        resolved = gate.resolve(asked.decision_id, accepted=["dry_run"])
        gate.learn(plain.decision_id, "failure")
        alike = gate.decide(refund(400))
        made = {
            "plain": packed(gate, plain),
            "memory": packed(gate, alike),
            "grant": packed(gate, granted),
            "resolution": packed(gate, resolved),
            "signed": write_pack(export_pack(stored(gate), plain), KEY),
        }
    assert {name for raw in made.values() for name in read_zip(raw)} >= {
        "memory.json",
        "earlier.json",
        "sealed.json",
    }
    return made


def flipped(raw: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(raw)
    changed[place % len(raw)] ^= 1 << bit
    return bytes(changed)


def how(raw: bytes) -> str:
    """Return how reading and replaying ends: `same`, or what it was refused for."""
    try:
        return "same" if replay_pack(read_pack(raw)).same else "different"
    except PackError as error:
        return error.where or "?"
    except Unreplayable:
        return "not replayable"


def test_packs_that_nobody_changed_replay() -> None:
    assert {name: how(raw) for name, raw in packs().items()} == dict.fromkeys(PACKS, "same")


@given(st.sampled_from(PACKS), st.data())
def test_a_changed_byte_of_a_member_is_found_and_the_member_named(
    kind: str, data: st.DataObject
) -> None:
    """INVARIANT: a pack in which any byte was changed is refused, and the member is named."""
    members = read_zip(packs()[kind])
    name = data.draw(st.sampled_from(sorted(members)))
    place, bit = data.draw(st.integers(0, len(members[name]) - 1)), data.draw(st.integers(0, 7))

    # Zipped again: checksums and sizes fit.
    assert how(write_zip({**members, name: flipped(members[name], place, bit)})) == name


@given(st.sampled_from(PACKS), st.integers(0), st.integers(0, 7))
def test_a_changed_byte_of_the_file_is_refused(kind: str, place: int, bit: int) -> None:
    assert how(flipped(packs()[kind], place, bit)) not in {"same", "different", "not replayable"}


@given(st.sampled_from(PACKS), st.integers(0))
def test_a_file_cut_short_is_refused(kind: str, length: int) -> None:
    raw = packs()[kind]

    assert how(raw[: length % len(raw)]) not in {"same", "different", "not replayable"}


@given(st.binary(max_size=300), st.booleans())
def test_nothing_but_a_pack_error_comes_of_any_bytes(raw: bytes, like_a_zip: bool) -> None:
    assert how(b"PK\x03\x04" + raw if like_a_zip else raw) not in {"same", "different"}


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)


@FEW
@given(st.sampled_from(PACKS), st.data())
def test_a_member_of_any_json_with_a_fitting_manifest_is_found(
    kind: str, data: st.DataObject
) -> None:
    raw = packs()[kind]
    members = read_zip(raw)
    name = data.draw(st.sampled_from(sorted(set(members) - {"manifest.json", "README.txt"})))
    content = canonical_bytes(data.draw(JSON))
    forgery = repaired({**members, name: content})

    assert how(forgery) != "same"


@given(st.sampled_from(PACKS), st.data())
def test_a_byte_of_the_record_changed_with_a_fitting_manifest_is_found(
    kind: str, data: st.DataObject
) -> None:
    members = read_zip(packs()[kind])
    name = data.draw(st.sampled_from(sorted({"record.json", "sealed.json"} & members.keys())))
    place, bit = data.draw(st.integers(0, len(members[name]) - 1)), data.draw(st.integers(0, 7))

    assert how(repaired({**members, name: flipped(members[name], place, bit)})) in {
        "record.json",
        "sealed.json",
        "manifest.json",
    }


# What nothing else in a pack says; only heads and signatures speak for these.
UNKNOWABLE = {"decision_id", "created_at", "attempt", "attempts_left", "root_id", "sealed_digest"}


@FEW
@given(st.sampled_from(PACKS), st.data())
def test_a_field_of_the_record_changed_with_everything_fitting_is_found(
    kind: str, data: st.DataObject
) -> None:
    raw = packs()[kind]
    record = json.loads(read_zip(raw)["record.json"])
    field = data.draw(st.sampled_from(sorted(set(record) - UNKNOWABLE)))
    value = data.draw(JSON.filter(lambda value: value != record[field]))

    assert how(changed_record(raw, **{field: value})) != "same"


@FEW
@given(st.sampled_from(PACKS), st.data())
def test_a_field_of_what_came_in_changed_with_everything_fitting_is_found(
    kind: str, data: st.DataObject
) -> None:
    raw = packs()[kind]
    sealed = json.loads(read_zip(raw)["sealed.json"])
    # Who asked a second time, and under which salt, is known from the first decision alone.
    loose = {"fingerprint", "salt", "inputs_digest"} if kind != "plain" else set()
    field = data.draw(st.sampled_from(sorted(set(sealed) - loose)))
    value = data.draw(JSON.filter(lambda value: value != sealed[field]))

    assert how(changed_sealed(raw, **{field: value})) != "same"


@FEW
@given(st.sampled_from(PACKS), st.text(max_size=40))
def test_any_text_for_a_policy_ends_in_a_pack_error(kind: str, text: str) -> None:
    def change(members: Members) -> None:
        members["policy.yaml"] = text.encode("utf-8", "surrogatepass")

    assert how(forged(packs()[kind], change)).startswith("policy.yaml")


@FEW
@given(st.sampled_from(["policy", "registry"]), st.data())
def test_a_snapshot_with_any_changed_character_is_never_shown(
    kind: str, data: st.DataObject
) -> None:
    """INVARIANT: a text that is not the one that decided is never shown as if it were."""
    with opened() as gate:
        record = gate.decide(refund(400))
        digests = {
            "policy": record.determinism.policy_digest,
            "registry": record.determinism.registry_digest,
        }
        store, digest = stored(gate), digests[kind]
        text = read_snapshot(store, kind, digest)
        assert text is not None
        place = data.draw(st.integers(0, len(text) - 1))
        other = text[:place] + data.draw(st.sampled_from("x0 \n{")) + text[place + 1 :]
        with store.backend._open_write() as execute:
            change = "UPDATE snapshots SET text = :text WHERE digest = :digest"
            execute(change, {"text": other, "digest": digest})
        try:
            shown = read_snapshot(store, kind, digest)
        except StorageError:
            assert other != text
        else:
            # The digest of a policy ignores spacing and comments.
            assert shown == other
            assert other == text or digest_policy(other) == digest
