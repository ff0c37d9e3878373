import io
import json
import zipfile
from collections.abc import Callable, Iterator

import pytest
from support.gates import KEY, RING, cleanup, grant, opened, refund, stored
from support.packs import Members, changed_record, changed_sealed, forged, packed, repaired

from demur.audit import pack
from demur.audit.pack import (
    CONTAINER,
    EARLIER,
    MANIFEST,
    MEMORY,
    PackError,
    check_container,
    read_pack,
    read_zip,
    write_pack,
    write_zip,
)
from demur.audit.report import export_pack
from demur.canonical import canonical_bytes
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.grants import KeyRing, SigningKey
from demur.memory.recall import MemorySettings


@pytest.fixture
def gate() -> Iterator[Gate]:
    with opened(memory=MemorySettings()) as gate:
        yield gate


@pytest.fixture
def raw(gate: Gate) -> bytes:
    return packed(gate, gate.decide(refund(400)))


def refused(raw: bytes) -> PackError:
    with pytest.raises(PackError) as caught:
        read_pack(raw)
    return caught.value


def test_a_written_pack_is_read_back(gate: Gate) -> None:
    gate.learn(gate.decide(refund(400)).decision_id, "failure")
    record = gate.decide(refund(400))
    pack = export_pack(stored(gate), record)

    assert pack.memory
    assert read_pack(write_pack(pack)) == pack


def test_the_same_decision_always_gives_the_same_bytes(gate: Gate) -> None:
    record = gate.decide(refund(400))

    assert packed(gate, record) == packed(gate, record)


def test_a_pack_says_for_people_what_is_in_it(raw: bytes) -> None:
    words = read_zip(raw)["README.txt"].decode()

    assert "demur replay" in words
    assert all(name in words for name in read_zip(raw) if name != "README.txt")


@pytest.mark.parametrize("name", ["record.json", "sealed.json", "policy.yaml", "README.txt"])
def test_a_changed_member_is_named(raw: bytes, name: str) -> None:
    members = read_zip(raw)
    members[name] += b" "

    assert refused(write_zip(members)).where == name


def test_a_member_that_is_missing_is_named(raw: bytes) -> None:
    for name in read_zip(raw):
        members = read_zip(raw)
        del members[name]

        assert refused(write_zip(members)).where == name


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.txt", "x.txt", "memory.json"])
def test_a_member_that_nobody_listed_is_refused(raw: bytes, name: str) -> None:
    error = refused(write_zip({**read_zip(raw), name: b"[]"}))

    assert (error.where, error.problem) == (name, "the member does not belong here")


def test_a_member_that_packs_do_not_have_is_refused_even_if_listed(raw: bytes) -> None:
    assert refused(repaired({**read_zip(raw), "x.txt": b""})).where == "x.txt"


def test_a_needed_member_cannot_be_left_out_of_the_list(raw: bytes) -> None:
    members = read_zip(raw)
    del members["policy.yaml"]

    assert refused(repaired(members)).where == "policy.yaml"


@pytest.mark.parametrize(
    "manifest",
    [b"", b"null", b"{}", b"\xff", b'{"a":1,"a":2}', b"[" * 10**5, b'{"digest":"' + b"x" * 99],
)
def test_a_manifest_that_cannot_be_read_is_refused(raw: bytes, manifest: bytes) -> None:
    assert refused(write_zip({**read_zip(raw), MANIFEST: manifest})).where == MANIFEST


def test_a_manifest_that_is_written_otherwise_is_refused(raw: bytes) -> None:
    members = read_zip(raw)
    members[MANIFEST] = json.dumps(json.loads(members[MANIFEST]), indent=2).encode()

    assert refused(write_zip(members)).where == MANIFEST


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("schema_version", "decision_pack.v9", "unknown schema version"),
        ("decision_id", "01J", "another decision"),
        ("engine_version", "0.0.0", "another engine"),
    ],
)
def test_a_manifest_of_something_else_is_refused(
    raw: bytes, field: str, value: str, problem: str
) -> None:
    error = refused(repaired(read_zip(raw), **{field: value}))

    assert error.where == MANIFEST
    assert problem in error.problem


def test_a_record_of_another_place_in_the_chain_is_refused(gate: Gate) -> None:
    one, two = (packed(gate, gate.decide(refund(value))) for value in (1, 2))
    place = json.loads(read_zip(one)[MANIFEST])["chain"]

    assert refused(repaired(read_zip(two), chain=place)).where == "record.json"
    assert refused(repaired(read_zip(two), chain={**place, "seq": 0})).where == MANIFEST


def test_a_sealed_half_of_something_else_is_refused(gate: Gate) -> None:
    one, two = (read_zip(packed(gate, gate.decide(refund(value)))) for value in (1, 2))

    assert refused(repaired({**one, "sealed.json": two["sealed.json"]})).where == "sealed.json"


def replaced(name: str, content: bytes) -> Callable[[Members], None]:
    return lambda members: members.update({name: content})


@pytest.mark.parametrize("content", [b"{}", b"\xff", b"[{}]", b"[ ]", b"[" * 10**5, b"{"])
@pytest.mark.parametrize("name", [MEMORY, EARLIER])
def test_a_member_of_the_wrong_kind_is_refused(raw: bytes, name: str, content: bytes) -> None:
    assert refused(forged(raw, replaced(name, content))).where == name


@pytest.mark.parametrize("name", ["policy.yaml", "registry.json"])
def test_a_text_that_is_none_is_refused(raw: bytes, name: str) -> None:
    assert refused(forged(raw, replaced(name, b"\xff"))).where == name


def test_a_record_with_a_field_of_its_own_is_refused(raw: bytes) -> None:
    error = refused(changed_record(raw, approved_by="the chief"))

    assert error.where == "record.json"
    assert "not written as engine" in error.problem


def test_forging_changes_nothing_if_nothing_is_changed(raw: bytes) -> None:
    assert changed_record(raw) == changed_sealed(raw) == raw


# -- signatures --------------------------------------------------------------------------


def test_the_signer_of_a_pack_is_shown_only_if_the_key_is_trusted(gate: Gate) -> None:
    pack = export_pack(stored(gate), gate.decide(refund()))
    signed = write_pack(pack, KEY)

    assert signed == write_pack(pack, KEY)
    assert read_pack(signed, RING).signed_by == "user:mary"
    # Without keys it reads like any other, and nobody is vouched for.
    unchecked = read_pack(signed)
    assert unchecked.signed_by is None
    assert unchecked.signature is not None
    assert unchecked.signature.key_id == "k1"


def test_with_keys_an_unsigned_pack_is_refused(raw: bytes) -> None:
    with pytest.raises(PackError, match="nobody signed"):
        read_pack(raw, RING)


def test_a_signature_of_somebody_else_is_refused(gate: Gate) -> None:
    pack = export_pack(stored(gate), gate.decide(refund()))
    other = SigningKey.from_randomness(bytes([1]) * 32, key_id="k1", holder="user:eve")
    stranger = SigningKey.from_randomness(bytes([1]) * 32, key_id="k2", holder="user:eve")

    with pytest.raises(PackError, match="the signature is not that of user:mary"):
        read_pack(write_pack(pack, other), RING)
    with pytest.raises(PackError, match="`k2`, which you do not trust"):
        read_pack(write_pack(pack, stranger), RING)
    assert (
        read_pack(write_pack(pack, other), KeyRing([other.trusted_key()])).signed_by == "user:eve"
    )


def test_a_forger_cannot_keep_the_signature(gate: Gate) -> None:
    signed = write_pack(export_pack(stored(gate), gate.decide(refund())), KEY)
    forgery = changed_record(signed, verdict="DENY")

    assert read_pack(forgery).record.verdict == "DENY"
    with pytest.raises(PackError, match="the signature is not that of user:mary"):
        read_pack(forgery, RING)


def test_a_changed_signature_is_found_without_keys(gate: Gate) -> None:
    members = read_zip(write_pack(export_pack(stored(gate), gate.decide(refund())), KEY))
    manifest = json.loads(members[MANIFEST])
    manifest["signature"]["key_id"] = "k9"

    assert refused(write_zip({**members, MANIFEST: canonical_bytes(manifest)})).where == MANIFEST


def test_a_resolution_carries_the_decision_that_it_resolves(gate: Gate) -> None:
    asked = gate.decide(cleanup())
    done = gate.resolve(asked.decision_id, accepted=["dry_run"])
    pack = read_pack(packed(gate, done))

    assert pack.earlier == asked

    def change(members: Members) -> None:
        members[EARLIER] = members[EARLIER].replace(b"dry_run", b"wet_run")

    assert refused(forged(packed(gate, done), change)).where == EARLIER


def test_a_pack_without_a_chain_can_be_written_and_read() -> None:
    with opened() as gate:
        record = gate.decide(refund(), grants=[grant({"action": "refund"})])
        pack = export_pack(stored(gate), record)
    bare = repaired(read_zip(write_pack(pack)), chain=None)

    assert read_pack(bare).record.chain is None


def test_errors_of_packs_are_errors_about_values() -> None:
    assert issubclass(PackError, ValueError)
    assert not issubclass(PackError, InputError)


MEMBERS = {"b.txt": b"two\n" * 50, "a.json": b"{}", "empty": b""}


def test_zipped_members_are_read_back() -> None:
    assert read_zip(write_zip(MEMBERS)) == MEMBERS


def test_the_order_of_members_does_not_change_the_zip() -> None:
    assert write_zip(MEMBERS) == write_zip(dict(reversed(MEMBERS.items())))


def test_any_other_tool_can_read_it() -> None:
    with zipfile.ZipFile(io.BytesIO(write_zip(MEMBERS))) as file:
        assert file.testzip() is None
        assert {name: file.read(name) for name in file.namelist()} == MEMBERS
        assert file.namelist() == sorted(MEMBERS)
        assert file.infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)


@pytest.mark.parametrize("raw", [b"", b"PK", b"no zip at all", b"\x00" * 100], ids=repr)
def test_bytes_that_are_not_a_zip_are_refused(raw: bytes) -> None:
    with pytest.raises(PackError, match="not a pack"):
        read_zip(raw)


def test_a_file_cut_anywhere_is_refused() -> None:
    raw = write_zip(MEMBERS)

    for length in range(len(raw)):
        with pytest.raises(PackError):
            check_container(raw[:length], read_zip(raw[:length]))


@pytest.mark.parametrize("where", ["in front", "behind"])
def test_a_byte_more_is_refused(where: str) -> None:
    raw = write_zip(MEMBERS)
    longer = b"\n" + raw if where == "in front" else raw + b"\n"

    with pytest.raises(PackError) as caught:
        check_container(longer, read_zip(longer))

    assert caught.value.where == CONTAINER


def written(*entries: tuple[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as file:
        for name, content in entries:
            file.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_duplicate_member_is_named() -> None:
    with pytest.raises(PackError, match="twice") as caught:
        read_zip(written(("a.json", b"{}"), ("a.json", b"[]")))

    assert caught.value.where == "a.json"


def test_a_compressed_member_is_never_unfolded() -> None:
    with pytest.raises(PackError, match="compressed") as caught:
        read_zip(written(("a.json", b"0" * 10**6), kind=zipfile.ZIP_DEFLATED))

    assert caught.value.where == "a.json"


def test_the_same_members_in_another_order_or_of_another_day_are_refused() -> None:
    other = written(*sorted(MEMBERS.items(), reverse=True))

    assert read_zip(other) == MEMBERS
    with pytest.raises(PackError, match="around its members"):
        check_container(other, MEMBERS)


def test_a_declared_size_that_is_not_there_is_refused() -> None:
    raw = bytearray(write_zip({"a.json": b"{}"}))
    raw[18:26] = b"\xff\xff\xff\x7f" * 2

    with pytest.raises(PackError, match="cut short") as caught:
        read_zip(bytes(raw))

    assert caught.value.where == "a.json"


def test_a_changed_member_does_not_meet_its_checksum() -> None:
    raw = bytearray(write_zip({"a.json": b"{}"}))
    raw[raw.index(b"{}")] ^= 1

    with pytest.raises(PackError, match="checksum") as caught:
        read_zip(bytes(raw))

    assert caught.value.where == "a.json"


def test_a_name_that_is_no_text_is_shown_escaped() -> None:
    raw = write_zip({"a.json": b"{}"}).replace(b"a.json", b"\xff.json")

    assert list(read_zip(raw)) == ["\\xff.json"]


def test_a_file_that_is_too_large_is_neither_read_nor_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = write_zip(MEMBERS)
    monkeypatch.setattr(pack, "MAX_PACK_BYTES", 100)

    with pytest.raises(PackError, match="at most 100 bytes"):
        read_zip(raw)
    with pytest.raises(PackError, match="less than 100 bytes"):
        write_zip(MEMBERS)
