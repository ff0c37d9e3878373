"""Answers that are used again by later runs: same suite, same target, same row.

One file for each pair of suite and target; of its answers only the places are in memory.
Errors are never kept.
"""

from pathlib import Path
from typing import BinaryIO

import msgspec

from demur.canonical import digest
from demur.evals.answer import TargetAnswer, decode_answer
from demur.evals.run_answers import AnswerFile, drop_torn_line
from demur.evals.run_manifest import RunManifest

__all__ = ["AnswerCache"]


class AnswerCache:
    """The answers of one target to one suite, in a folder that runs share."""

    def __init__(self, folder: Path, manifest: RunManifest) -> None:
        key = digest(
            {
                "suite": manifest.suite.digest,
                "target": manifest.target.name,
                "settings": manifest.target.settings,
            }
        )
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{key.rpartition(':')[2]}.jsonl"
        self._answer_file = AnswerFile(path)
        drop_torn_line(path)
        self._offsets: dict[str, int] = {}
        self._file: BinaryIO = path.open("rb")
        place = 0
        for line in self._file:
            self._index_line(line, place)
            place += len(line)

    def get_answer(self, row_id: str) -> TargetAnswer | None:
        """Return the cached answer to a row, or None."""
        place = self._offsets.get(row_id)
        if place is None:
            return None
        self._file.seek(place)
        return decode_answer(self._file.readline())

    def put_answer(self, answer: TargetAnswer) -> None:
        """Keep an answer, unless it is an error."""
        if answer.error is None:
            self._answer_file.append_answer(answer)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._answer_file.close()

    def _index_line(self, line: bytes, place: int) -> None:
        try:
            self._offsets[decode_answer(line).row_id] = place
        except (msgspec.MsgspecError, RecursionError):
            """Lines that are not answers are ignored."""
