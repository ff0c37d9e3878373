import contextlib
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

from demur.triage.counts import RefusalCounts, TriageOptions
from demur.triage.inputs import LogFollower, follow_logs

LINE = b"REFUSED: RCE_RISK: x\n"


def followed(
    names: list[str], *steps: Callable[[], object], from_start: bool = True
) -> list[RefusalCounts]:
    """Return the counts that are told while the steps are taken, one between two looks."""
    waiting: Iterator[Callable[[], object]] = iter(steps)

    def wait() -> bool:
        step = next(waiting, None)
        if step is not None:
            step()
        return step is not None

    return list(follow_logs(names, TriageOptions(), wait=wait, from_start=from_start))


def append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as file:
            file.write(data)

    return step


def totals(found: list[RefusalCounts]) -> list[int]:
    return [counts.count_kinds() for counts in found]


def test_added_lines_are_counted_once_and_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LINE + b"REFUSED: RCE")

    found = followed(
        [str(path)], append(path, b"_RISK: y\n"), append(path, b"nothing\n"), append(path, LINE * 2)
    )

    assert totals(found) == [1, 2, 4]
    assert found[-1].files == 1


def test_a_rotated_file_is_read_to_its_end_and_the_new_one_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LINE)

    def rotate() -> None:
        append(path, LINE + LINE[:-1])()
        path.rename(tmp_path / "old")
        path.write_bytes(LINE * 3)

    found = followed([str(path)], rotate, append(path, LINE))

    assert totals(found) == [1, 6, 7]


def test_a_file_away_in_the_middle_of_its_rotation_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LINE)

    found = followed(
        [str(path)],
        lambda: path.rename(tmp_path / "old"),
        lambda: path.write_bytes(LINE),
    )

    assert totals(found) == [1, 2]


def test_a_truncated_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LINE * 3)

    assert totals(followed([str(path)], lambda: path.write_bytes(LINE))) == [3, 4]


def test_files_that_appear_later_are_read(tmp_path: Path) -> None:
    found = followed([str(tmp_path)], lambda: (tmp_path / "new").write_bytes(LINE))

    assert totals(found) == [0, 1]


def test_an_input_that_cannot_be_followed_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "none"
    found = followed(
        [str(path), str(tmp_path / "*.x"), "-"], lambda: None, lambda: path.write_bytes(LINE)
    )

    assert totals(found) == [0, 1]
    assert len(found[-1].unread) == 3


def test_old_lines_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LINE * 5)

    assert totals(followed([str(path)], append(path, LINE), from_start=False)) == [0, 1]


def test_a_compressed_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(LINE * 2))

    assert totals(followed([str(path)], lambda: None)) == [2]


def test_json_lines_are_followed_as_such(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"message": "ok"}\n')
    line = b'{"prompt": "REFUSED: RCE_RISK: x", "message": "REFUSED: PII_DETECTED: x"}\n'

    found = followed([str(path)], append(path, line))

    assert [key.code for key in found[-1].rows] == ["PII_DETECTED"]


def test_a_file_that_is_rotated_in_a_followed_folder_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LINE * 2)

    def rotate() -> None:
        append(path, LINE + LINE[:-1])()
        for number in (2, 1):
            with contextlib.suppress(FileNotFoundError):
                (tmp_path / f"log.{number}").rename(tmp_path / f"log.{number + 1}")
        path.rename(tmp_path / "log.1")
        path.write_bytes(LINE)

    found = followed([str(tmp_path)], rotate, rotate, append(path, LINE), lambda: None)

    assert totals(found) == [2, 5, 8, 9]
    assert found[-1].files == 3


def test_lines_appended_to_a_rotated_file_are_read(tmp_path: Path) -> None:
    path, old = tmp_path / "log", tmp_path / "log.1"
    path.write_bytes(LINE)

    def rotate() -> None:
        path.rename(old)
        path.write_bytes(LINE)

    found = followed([str(tmp_path)], rotate, append(old, LINE), append(path, LINE))

    assert totals(found) == [1, 2, 3, 4]


def test_a_file_under_two_names_is_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LINE)
    (tmp_path / "b").hardlink_to(tmp_path / "a")

    assert totals(followed([str(tmp_path)])) == [1]


def test_a_file_whose_folder_is_gone_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "log"
    path.write_bytes(LINE)

    def replace() -> None:
        folder.rename(tmp_path / "old")
        folder.write_bytes(b"no folder")
        append(tmp_path / "old" / "log", LINE)()

    found = followed([str(path)], replace, lambda: None)

    assert totals(found) == [1, 2]
    assert [unread.reason for unread in found[-1].unread] == ["not a directory"]


def test_files_that_are_over_are_let_go(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LINE)
    follower = LogFollower((str(path),), TriageOptions(), from_start=True)
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(5):
        follower.read_new()
        path.unlink()
        follower.read_new()
        path.write_bytes(LINE)
    total = follower.read_new().count_kinds()
    for _ in range(2):
        follower.read_new()
    after = len(list(Path("/dev/fd").iterdir()))
    follower.close()

    assert total == 1
    assert after <= before + 1


def test_a_file_that_is_missed_once_is_not_begun_anew(tmp_path: Path) -> None:
    path, away = tmp_path / "log", tmp_path / "away"
    path.write_bytes(LINE)

    def rotate() -> None:
        path.rename(away)
        path.write_bytes(LINE)

    found = followed([str(tmp_path / "log*")], rotate, lambda: away.rename(tmp_path / "log.1"))

    assert totals(found) == [1, 2]


def test_a_form_that_is_named_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"prompt": "REFUSED: RCE_RISK: x"}\n')
    follower = LogFollower((str(path),), TriageOptions(format="text"), from_start=True)
    total = follower.read_new().count_kinds()
    follower.close()

    assert total == 1
