from pathlib import Path

from sdk_search import unwatched

SOURCE = """
from typing import Literal
Reason = Literal["stop", "content_filter"]
Watched: TypeAlias = Literal["stop", "content_filter"]
Alone = Literal["content_filter"]
Other = Literal["stop", "length"]
a.b = Literal["content_filter", "x"]
TABLE = {"content_filter": 1}

class Status(Enum):
    OK = "ok"
    FILTERED = "content_filter"

class Choice(Model):
    text: str
    reason: typing.Literal["stop", "content_filter"]

class Odd(Enum):
    pass
"""


def found(folder: Path) -> dict[str, tuple[str, ...]]:
    return dict(unwatched(folder, {"content_filter"}, {"toy.types:Watched"}))


def test_places_with_a_telling_value_that_nobody_watches_are_found(tmp_path: Path) -> None:
    (tmp_path / "toy/tests").mkdir(parents=True)
    (tmp_path / "toy/types.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "toy/quiet.py").write_text('Reason = Literal["stop", "x"]', encoding="utf-8")
    (tmp_path / "toy/tests/types.py").write_text(SOURCE, encoding="utf-8")

    assert found(tmp_path) == {
        "toy.types:Reason": ("content_filter", "stop"),
        "toy.types:Status": ("content_filter", "ok"),
        "toy.types:Choice.reason": ("content_filter", "stop"),
    }


def test_a_package_is_named_without_its_file(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    text = 'Reason = Literal["stop", "content_filter"]'
    (tmp_path / "toy/__init__.py").write_text(text, encoding="utf-8")

    assert list(found(tmp_path)) == ["toy:Reason"]
