"""Lines of a file that may be large, wrongly encoded, or both.

A line that is not UTF-8 is handed on with its bytes escaped, so that one bad row is one
problem; a file in another encoding altogether is refused at once, with the way out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from demur.errors import Problem
from demur.evals.suite_row import SuiteError

__all__ = ["MAX_LINE_BYTES", "open_lines", "read_file"]

MAX_LINE_BYTES = 4_000_000
MAX_FILE_BYTES = 256 * 2**20

_BOM = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def open_lines(path: Path | str) -> Iterator[str]:
    """Yield the lines of the file at `path` one at a time, with their line ends.

    Raises:
        SuiteError: The file cannot be read, is in another encoding, or a line is too long.
    """
    try:
        with Path(path).open("rb") as file:
            yield from _decode_lines(path, file)
    except (OSError, ValueError) as error:
        if isinstance(error, SuiteError):
            raise
        raise _read_error(path, error) from error


def read_file(path: Path | str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return the UTF-8 bytes of a whole file.

    Raises:
        SuiteError: The file cannot be read, is too large, or is not UTF-8.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise _read_error(path, error) from error
    if len(raw) > max_bytes:
        problem = f"the file is larger than {max_bytes // 2**20} MiB"
        help_text = "use JSON lines, which are read row by row"
        raise SuiteError.from_problems([Problem(str(path), problem, help_text)])
    _check_encoding(path, raw)
    raw = raw.removeprefix(_BOM)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _utf8_error(f"{path}:{line}") from error
    return raw


def _decode_lines(path: Path | str, file: IO[bytes]) -> Iterator[str]:
    number = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            _check_encoding(path, raw)
            raw = raw.removeprefix(_BOM)
        if len(raw) > MAX_LINE_BYTES:
            problem = f"the line is longer than {MAX_LINE_BYTES} bytes"
            raise SuiteError.from_problems(
                [Problem(f"{path}:{number}", problem, "write one row per line")]
            )
        yield raw.decode("utf-8", "surrogateescape")


def _check_encoding(path: Path | str, raw: bytes) -> None:
    found = next((name for mark, name in _OTHER_ENCODINGS.items() if raw.startswith(mark)), None)
    # ASCII text in UTF-16 without a byte order mark has a NUL in every second byte.
    if found is None and raw[:64].count(b"\x00") >= max(1, len(raw[:64]) // 3):
        found = "UTF-16"
    if found is not None:
        help_text = f"convert it to UTF-8: `iconv -f {found} -t UTF-8 FILE`"
        raise SuiteError.from_problems(
            [Problem(str(path), f"the file is {found}, not UTF-8", help_text)]
        )


def _utf8_error(where: str) -> SuiteError:
    help_text = "save it as UTF-8, for example `iconv -f LATIN1 -t UTF-8 FILE`"
    return SuiteError.from_problems([Problem(where, "not UTF-8 text", help_text)])


def _read_error(path: Path | str, error: Exception) -> SuiteError:
    reason = str(getattr(error, "strerror", None) or error).lower()
    return SuiteError.from_problems([Problem(str(path), f"cannot read the suite: {reason}")])
