"""Whatever happens to the files of a store, what it acknowledged is in the file at its path."""

import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from support.store_records import decision_id, make_record

from demur.store.backend import StorageError
from demur.store.opening import open_store
from demur.store.verify import verify_chain

NAME = "demur.db"
STEPS = ("put", "read", "move_away", "put_back", "lose_log", "replace")


class MovedStore:
    """A store whose files somebody moves about while it is open."""

    def __init__(self, folder: Path) -> None:
        self.here, self.away, self.spare = (folder / name for name in ("here", "away", "spare"))
        for one in (self.here, self.away, self.spare):
            one.mkdir()
        open_store(self.spare / NAME).close()
        self.store = open_store(self.here / NAME, durability="normal", deadline_s=None)
        self.acknowledged: list[str] = []
        self._number = 0

    def put(self) -> bool:
        """Store a record; return whether that was acknowledged."""
        self._number += 1
        try:
            self.store.put(make_record(self._number))
        except StorageError:
            return False
        self.acknowledged.append(decision_id(self._number))
        return True

    def read(self) -> None:
        """Read, which must not create a file."""
        with suppress(StorageError):
            self.store.count_rows()

    def move_away(self) -> None:
        """Move the files elsewhere."""
        if not any(self.away.iterdir()):
            _move_files(self.here, self.away)

    def put_back(self) -> None:
        """Move the files back, whatever is there now."""
        if any(self.away.iterdir()):
            for file in self.here.iterdir():
                file.unlink()
            _move_files(self.away, self.here)

    def lose_log(self) -> None:
        """Delete the log while the store has it open; the next write notices."""
        if self.put():
            (self.here / f"{NAME}-wal").unlink()
            self.put()

    def replace(self) -> None:
        """Put an empty store in the place of files that were moved away."""
        if not any(self.here.iterdir()):
            (self.here / NAME).write_bytes((self.spare / NAME).read_bytes())


def _move_files(source: Path, target: Path) -> None:
    """Move the files of a store, the database last, as somebody careful does."""
    for file in sorted(source.iterdir(), reverse=True):
        file.rename(target / file.name)


@example(["put", "move_away", "put", "put_back", "put"])
@example(["put", "lose_log", "put", "move_away", "replace", "put"])
@example(["put", "move_away", "read", "put", "put_back", "read", "put"])
@given(st.lists(st.sampled_from(STEPS), max_size=12))
def test_acknowledged_records_are_in_the_file(steps: list[str]) -> None:
    """INVARIANT: a record is acknowledged only if it is in the file at the store's path."""
    with tempfile.TemporaryDirectory() as folder:
        moved = MovedStore(Path(folder))
        with moved.store:
            for step in ("put", *steps):
                getattr(moved, step)()
        moved.put_back()
        with open_store(moved.here / NAME) as store:
            stored = {record.decision_id for record in store.find_records()}
            assert verify_chain(store.backend).holds

    assert moved.acknowledged
    assert set(moved.acknowledged) <= stored
