import bz2
import gzip
import io
import lzma
from pathlib import Path

import pytest

from demur.errors import InputError, MissingExtraError
from demur.triage import blocks
from demur.triage.blocks import range_blocks, stream_blocks
from demur.triage.cluster import counts_from_table, scan_batch, to_table, write_parquet
from demur.triage.counts import UNKNOWN, RefusalCounts, TriageOptions
from demur.triage.prefilter import FilterSearch, build_prefilter
from demur.triage.scan import scan_lines, scan_range, scan_stream

pa = pytest.importorskip("pyarrow")
TEXT = TriageOptions(format="text")
LINE = b"2026-11-15T14:00:00Z REFUSED: RCE_RISK: x\n"


def stream(data: bytes, options: TriageOptions = TEXT) -> RefusalCounts:
    return scan_stream(io.BytesIO(data), "s", options)  # type: ignore[arg-type]


def zstd(data: bytes) -> bytes:
    packed = pytest.importorskip("zstandard").ZstdCompressor().compress(data)
    assert isinstance(packed, bytes)
    return packed


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstd, bytes])
def test_compressed_logs_count_like_plain_ones(pack: object) -> None:
    assert callable(pack)
    counts = stream(pack(LINE * 50_000))

    assert (counts.count_kinds(), counts.size, counts.files) == (50_000, 50_000 * len(LINE), 1)


def test_gzip_may_have_members_and_padding() -> None:
    assert stream(gzip.compress(LINE) + gzip.compress(LINE) + b"\0" * 99).count_kinds() == 2


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_a_damaged_file_is_counted_as_far_as_possible_and_reported(pack: object) -> None:
    assert callable(pack)
    whole = pack(bytes(LINE * 1000 + bytes(range(256)) * 4000))
    counts = stream(whole[: len(whole) // 2] + b"\xff\xff\xff" * 20)

    assert counts.unread
    assert counts.unread[0].file == "s"


def test_a_truncated_gzip_file_says_so() -> None:
    [unread] = stream(gzip.compress(LINE * 9)[:-12]).unread

    assert unread.reason == "the file ends within compressed data"


def test_zstd_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zstd(LINE)
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)

    with pytest.raises(MissingExtraError, match="zstd needs"):
        stream(packed)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\nREFUSED: RATE_LIMIT: y"])
@pytest.mark.parametrize(
    "length", [10, blocks.BLOCK_SIZE, blocks.MAX_LINE_BYTES - 20, blocks.MAX_LINE_BYTES]
)
def test_long_lines_are_read_alike_from_files_and_streams(
    tmp_path: Path, length: int, ending: bytes
) -> None:
    log = b"x\n" + b"REFUSED: RCE_RISK: " + b"a" * length + ending
    path = tmp_path / "log"
    path.write_bytes(log)

    counts = scan_range(path, 0, len(log), TEXT)
    streamed = stream(log)

    assert counts.count_kinds() == streamed.count_kinds() == 1 + (b"RATE" in ending)
    assert counts.cut == streamed.cut == (length == blocks.MAX_LINE_BYTES)
    assert counts.size == streamed.size == len(log)


def test_ranges_inside_a_long_line_hold_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * (3 * blocks.BLOCK_SIZE) + b"\n" + LINE)
    size = path.stat().st_size

    assert scan_range(path, 10, blocks.BLOCK_SIZE, TEXT) == RefusalCounts()
    assert scan_range(path, blocks.BLOCK_SIZE, size, TEXT).count_kinds() == 1
    assert scan_range(path, size, size + 9, TEXT) == RefusalCounts()


def test_a_line_that_goes_on_is_left_for_later() -> None:
    assert not list(stream_blocks(io.BytesIO(b"no end"), whole=False))
    assert not list(stream_blocks(io.BytesIO(b"a" * (blocks.MAX_LINE_BYTES + 5)), whole=False))
    block = next(stream_blocks(io.BytesIO(b"one\ntwo"), whole=False))
    assert (bytes(block.data[: block.end]), block.read) == (b"one\n", 4)


def test_an_empty_file_has_no_blocks(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    with path.open("rb", buffering=0) as file:
        assert not list(range_blocks(file, 0, 5))


def test_bounds_leave_out_what_is_outside_and_what_has_no_time() -> None:
    log = LINE + b"REFUSED: RCE_RISK: when\n2026-11-16T00:00:00Z too many requests\n"
    day = __import__("datetime").datetime(2026, 11, 16, tzinfo=__import__("datetime").UTC)

    before = scan_lines(log, TriageOptions(format="text", until=day))
    after = scan_lines(log, TriageOptions(format="text", since=day))

    assert [key.code for key in before.rows] == ["RCE_RISK"]
    assert [(key.code, key.hour) for key in after.rows] == [("RATE_LIMIT", "2026-11-16T00")]
    assert before.undated == after.undated == 1


def test_unknown_codes_come_with_a_sample_whose_controls_are_escaped() -> None:
    counts = scan_lines(b"x\n\x1b[31mREFUSED: NOPE_NOPE: \x07\xff\n" * 2, TEXT)

    assert counts.count_kinds(UNKNOWN) == 2
    [sample] = counts.samples["NOPE_NOPE", UNKNOWN]
    assert (sample.offset, sample.text) == (2, "\\x1b[31mREFUSED: NOPE_NOPE: \\x07\\udcff")


def test_a_sample_of_a_long_line_is_cut() -> None:
    counts = scan_lines(
        b"REFUSED: RCE_RISK: " + b"x" * 999, TriageOptions(format="text", samples=1)
    )

    [[sample]] = counts.samples.values()
    assert sample.text.endswith("x…")
    assert len(sample.text) == 301


def test_a_new_code_on_every_line_does_not_fill_the_memory() -> None:
    log = b"".join(b"REFUSED: MADE_%d_X: y\n" % number for number in range(20_000))
    counts = scan_lines(log, TEXT)

    assert counts.count_kinds(UNKNOWN) == 20_000
    assert len(counts.rows) == 1001
    assert len(counts.samples) == 1000


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_a_batch_may_hold_any_kind_of_text(kind: object) -> None:
    rows = ["REFUSED: RCE_RISK: a", None, "two\ntoo many requests", "blocked by", "policy"]
    batch = pa.record_batch({"n": pa.array([1, 2, 3, 4, 5]), "line": pa.array(rows, kind)})

    assert scan_batch(batch, TEXT).count_kinds() == 2
    assert scan_batch(batch, TEXT, column="line").count_kinds() == 2
    assert scan_batch(batch.slice(2, 1), TEXT).count_kinds() == 1
    assert scan_batch(batch.slice(1, 1), TEXT) == RefusalCounts()


def test_a_batch_without_such_a_column_says_which_it_has() -> None:
    batch = pa.record_batch({"n": pa.array([1]), "line": pa.array(["x"])})

    with pytest.raises(InputError, match="not have a text or binary column `n`"):
        scan_batch(batch, TEXT, column="n")
    with pytest.raises(InputError, match="not have a text or binary column"):
        scan_batch(batch.select(["n"]), TEXT)


def test_counts_survive_a_table(tmp_path: Path) -> None:
    counts = scan_lines(LINE + b"too many requests\nREFUSED: NOPE_NOPE: x", TEXT)

    assert counts_from_table(to_table(counts)).rows == counts.rows
    assert to_table(RefusalCounts()).num_rows == 0
    with pytest.raises(InputError, match="cannot write"):
        write_parquet(counts, tmp_path / "none" / "x.parquet")


def test_without_arrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)

    with pytest.raises(MissingExtraError, match="pyarrow"):
        to_table(RefusalCounts())


def test_without_the_fast_engines_re2_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = __import__("sys").modules
    monkeypatch.setitem(modules, "hyperscan", None)

    assert build_prefilter(FilterSearch((b"abc",), marker=True))(b"xABC REFUSED:", 13).markers == [
        13
    ]
    with pytest.raises(MissingExtraError, match="`hyperscan` is not installed"):
        build_prefilter(FilterSearch((b"abc",)), "hyperscan")


def test_codes_and_phrases_of_an_organisation_are_known(tmp_path: Path, acme_text: object) -> None:
    assert callable(acme_text)
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": "acme.com/OWN_CODE", "aliases": ["ąęłÓśźżćń żółć"]}))
    log = "REFUSED: acme.com/OWN_CODE: x\nĄĘŁÓŚŹŻĆŃ żółć\nREFUSED: b..c/OWN: x\n".encode()
    escaped = __import__("json").dumps({"msg": "no: Ąęłóśźżćń ŻÓŁĆ"}).encode()
    options = TriageOptions(format="text", registries=(str(path),))

    rows = {(key.code, key.kind): n for key, n in scan_lines(log * 2, options).rows.items()}
    structured = scan_lines(escaped, TriageOptions(format="json", registries=(str(path),)))

    assert rows == {("acme.com/OWN_CODE", "canonical"): 2, ("acme.com/OWN_CODE", "legacy"): 2}
    assert structured.count_kinds("legacy") == 1


@pytest.mark.parametrize(
    "data", [blocks.detect_compression(b""), blocks.detect_compression(b"plain")]
)
def test_uncompressed_data_is_read_as_plain(data: str | None) -> None:
    assert data is None
