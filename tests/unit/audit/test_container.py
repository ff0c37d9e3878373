import io
import zipfile

import pytest

from demur.audit import container
from demur.audit.container import CONTAINER, PackError, check_container, read_zip, write_zip

MEMBERS = {"b.txt": b"two\n" * 50, "a.json": b"{}", "empty": b""}


def test_what_was_zipped_is_unzipped() -> None:
    assert read_zip(write_zip(MEMBERS)) == MEMBERS


def test_the_order_in_which_members_are_given_changes_nothing() -> None:
    assert write_zip(MEMBERS) == write_zip(dict(reversed(MEMBERS.items())))


def test_any_other_tool_can_read_it() -> None:
    with zipfile.ZipFile(io.BytesIO(write_zip(MEMBERS))) as file:
        assert file.testzip() is None
        assert {name: file.read(name) for name in file.namelist()} == MEMBERS
        assert file.namelist() == sorted(MEMBERS)
        assert file.infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)


@pytest.mark.parametrize("raw", [b"", b"PK", b"no zip at all", b"\x00" * 100], ids=repr)
def test_what_is_no_zip_is_refused(raw: bytes) -> None:
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
def test_a_member_that_stands_twice_is_named() -> None:
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
    monkeypatch.setattr(container, "MAX_PACK_BYTES", 100)

    with pytest.raises(PackError, match="at most 100 bytes"):
        read_zip(raw)
    with pytest.raises(PackError, match="less than 100 bytes"):
        write_zip(MEMBERS)
