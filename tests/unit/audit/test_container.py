import io
import zipfile

import pytest

from demur.audit import container
from demur.audit.container import CONTAINER, PackError, check_container, unzipped, zipped

MEMBERS = {"b.txt": b"two\n" * 50, "a.json": b"{}", "empty": b""}


def test_what_was_zipped_is_unzipped() -> None:
    assert unzipped(zipped(MEMBERS)) == MEMBERS


def test_the_order_in_which_members_are_given_changes_nothing() -> None:
    assert zipped(MEMBERS) == zipped(dict(reversed(MEMBERS.items())))


def test_any_other_tool_can_read_it() -> None:
    with zipfile.ZipFile(io.BytesIO(zipped(MEMBERS))) as file:
        assert file.testzip() is None
        assert {name: file.read(name) for name in file.namelist()} == MEMBERS
        assert file.namelist() == sorted(MEMBERS)
        assert file.infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)


@pytest.mark.parametrize("raw", [b"", b"PK", b"no zip at all", b"\x00" * 100], ids=repr)
def test_what_is_no_zip_is_refused(raw: bytes) -> None:
    with pytest.raises(PackError, match="not a pack"):
        unzipped(raw)


def test_a_file_cut_anywhere_is_refused() -> None:
    raw = zipped(MEMBERS)

    for length in range(len(raw)):
        with pytest.raises(PackError):
            check_container(raw[:length], unzipped(raw[:length]))


@pytest.mark.parametrize("where", ["in front", "behind"])
def test_a_byte_more_is_refused(where: str) -> None:
    raw = zipped(MEMBERS)
    longer = b"\n" + raw if where == "in front" else raw + b"\n"

    with pytest.raises(PackError) as caught:
        check_container(longer, unzipped(longer))

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
        unzipped(written(("a.json", b"{}"), ("a.json", b"[]")))

    assert caught.value.where == "a.json"


def test_a_compressed_member_is_never_unfolded() -> None:
    with pytest.raises(PackError, match="compressed") as caught:
        unzipped(written(("a.json", b"0" * 10**6), kind=zipfile.ZIP_DEFLATED))

    assert caught.value.where == "a.json"


def test_the_same_members_in_another_order_or_of_another_day_are_refused() -> None:
    other = written(*sorted(MEMBERS.items(), reverse=True))

    assert unzipped(other) == MEMBERS
    with pytest.raises(PackError, match="around its members"):
        check_container(other, MEMBERS)


def test_a_declared_size_that_is_not_there_is_refused() -> None:
    raw = bytearray(zipped({"a.json": b"{}"}))
    raw[18:26] = b"\xff\xff\xff\x7f" * 2

    with pytest.raises(PackError, match="cut short") as caught:
        unzipped(bytes(raw))

    assert caught.value.where == "a.json"


def test_a_changed_member_does_not_meet_its_checksum() -> None:
    raw = bytearray(zipped({"a.json": b"{}"}))
    raw[raw.index(b"{}")] ^= 1

    with pytest.raises(PackError, match="checksum") as caught:
        unzipped(bytes(raw))

    assert caught.value.where == "a.json"


def test_a_name_that_is_no_text_is_shown_escaped() -> None:
    raw = zipped({"a.json": b"{}"}).replace(b"a.json", b"\xff.json")

    assert list(unzipped(raw)) == ["\\xff.json"]


def test_a_file_that_is_too_large_is_neither_read_nor_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = zipped(MEMBERS)
    monkeypatch.setattr(container, "LARGEST", 100)

    with pytest.raises(PackError, match="at most 100 bytes"):
        unzipped(raw)
    with pytest.raises(PackError, match="less than 100 bytes"):
        zipped(MEMBERS)
