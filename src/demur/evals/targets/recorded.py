"""Answers that were given before, as the thing under test: one JSON object a line.

Lines are found by a row's id, or else by its prompt. Only their places are kept in memory.
The answers of a run of our own are read as they are.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from demur.evals.answer import TargetAnswer, limit_size, decode_answer, error_answer
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetError

__all__ = ["RecordedTarget", "RecordedOptions"]

_ID_FIELDS = ("row_id", "id")
_TEXT_FIELDS = ("text", "response", "answer", "completion", "output")


class RecordedOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a line; a path like `choices.0.message.content` reaches nested values.

    By default, ids are read from `row_id` or `id`, and answers from `text`, `response`, `answer`,
    `completion` or `output`.
    """

    id_field: str = ""
    prompt_field: str = "prompt"
    text_field: str = ""
    native_field: str = ""


class RecordedTarget:
    """A JSON lines file of answers, found by row id or else by prompt.

    Only offsets are in memory. A row without a recorded answer gets an error. The answers of a
    run of demur can be used directly.
    """

    def __init__(self, path: Path | str, options: RecordedOptions | None = None) -> None:
        self._path = Path(path)
        self._options = RecordedOptions() if options is None else options
        self._ids = (self._options.id_field,) if self._options.id_field else _ID_FIELDS
        self._texts = (self._options.text_field,) if self._options.text_field else _TEXT_FIELDS
        self._by_id: dict[str, int] = {}
        self._by_prompt: dict[bytes, int] = {}
        self._bad = 0
        try:
            self._file: BinaryIO = self._path.open("rb")
        except (OSError, ValueError) as error:
            reason = str(getattr(error, "strerror", None) or error).lower()
            raise TargetError(f"cannot read the answers: {reason}", where=str(path)) from error
        self._digest = self._index_file()

    @property
    def name(self) -> str:
        """The file's name."""
        return self._path.stem

    @property
    def settings(self) -> Mapping[str, Any]:
        """The file by its digest, and the fields that are read."""
        fields = msgspec.structs.asdict(self._options)
        return {"kind": "recorded", "file": self._path.name, "digest": self._digest, **fields}

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the recorded answer to a row."""
        place = self._by_id.get(row.id)
        if place is None:
            place = self._by_prompt.get(_prompt_key(row.prompt))
        if place is None:
            bad = f"; {self._bad} of its lines could not be read" if self._bad else ""
            problem = f"{self._path.name} holds no answer to `{row.id}`{bad}"
            return error_answer(row.id, "target", problem)
        self._file.seek(place)
        return self._read_answer(row, self._file.readline())

    async def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _index_file(self) -> str:
        """Index the lines by id and prompt; return the digest of the file."""
        total = hashlib.sha256()
        place = 0
        for line in self._file:
            total.update(line)
            here, place = place, place + len(line)
            if not line.strip():
                continue
            value = _decode_line(line)
            if value is None:
                self._bad += 1
                continue
            row_id = self._first_value(value, self._ids)
            prompt = _value_at(value, self._options.prompt_field)
            # The last line for a row counts.
            if isinstance(row_id, str | int):
                self._by_id[str(row_id)] = here
            if isinstance(prompt, str):
                self._by_prompt[_prompt_key(prompt)] = here
        return f"sha256:{total.hexdigest()}"

    def _read_answer(self, row: EvalRow, line: bytes) -> TargetAnswer:
        value = _decode_line(line)
        assert value is not None, "the file was changed while it was read"
        if not self._options.text_field and ("error_kind" in value or "row_id" in value):
            try:
                return msgspec.structs.replace(decode_answer(line), row_id=row.id)
            except msgspec.MsgspecError:
                """Another format that happens to have a field of that name."""
        text = self._first_value(value, self._texts)
        if not isinstance(text, str):
            names = ", ".join(f"`{name}`" for name in self._texts)
            return error_answer(row.id, "target", f"the recorded line has no text under {names}")
        native = (
            _value_at(value, self._options.native_field) if self._options.native_field else None
        )
        return TargetAnswer(row_id=row.id, text=text, native=limit_size(native))

    @staticmethod
    def _first_value(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
        found = (_value_at(value, name) for name in names)
        return next((one for one in found if one is not None), None)


def _decode_line(line: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _value_at(value: Any, name: str) -> Any:
    """Return the value at a path in a JSON value, or None."""
    if isinstance(value, dict) and name in value:
        return value[name]
    for part in name.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _prompt_key(prompt: str) -> bytes:
    return hashlib.blake2b(prompt.strip().encode(errors="replace"), digest_size=16).digest()
