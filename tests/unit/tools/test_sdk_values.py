import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sdk_values import MissingPlaceError, Sources

Write = Callable[..., Sources]


@pytest.fixture
def sdk(tmp_path: Path) -> Write:
    """Return what writes modules, by path and text, and hands out their sources."""

    def write(**modules: str) -> Sources:
        for name, text in modules.items():
            path = tmp_path / "toy" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Sources(tmp_path)

    return write


@pytest.mark.parametrize(
    "text",
    [
        'Reason = Literal["stop", "refusal"]',
        'Reason: TypeAlias = typing.Literal["stop", "refusal"]',
        'Reason = Union[Literal["stop"], Literal["refusal"], str]',
        'Reason = Literal["stop"] | Literal["refusal"] | None',
        'Reason = Optional[Literal["stop", "refusal", None]]',
        'Reason = Annotated[Literal["stop", "refusal"], Field("not a value")]',
        '_Stop = Literal["stop"]\nReason = Union[_Stop, "Literal[\'refusal\']"]',
        '_Stop = Literal["stop"]\nReason = Literal[_Stop, "refusal"]',
        'class Reason(str, Enum):\n    STOP = "stop"\n    REFUSAL = "refusal"\n    _order_ = "x"',
        'class Reason(Enum):\n    STOP = "stop", "words"\n    REFUSAL = ("refusal", 1)',
        'if TYPE_CHECKING:\n    pass\nelse:\n    Reason = Literal["stop", "refusal"]',
        'try:\n    import x\nexcept ImportError:\n    Reason = Literal["stop", "refusal"]',
    ],
)
def test_an_alias_or_enum_has_the_values_that_it_lists(sdk: Write, text: str) -> None:
    assert sdk(types=text).values("toy.types:Reason") == {"stop", "refusal"}


def test_an_enum_of_numbers_is_written_by_its_names(sdk: Write) -> None:
    sources = sdk(types="class State(proto.Enum):\n    UNKNOWN = 0\n    MATCH_FOUND = 2\n")

    assert sources.values("toy.types:State") == {"UNKNOWN", "MATCH_FOUND"}


def test_a_model_is_written_by_the_names_of_its_fields(sdk: Write) -> None:
    fields = ("hate: bool", "self_harm: bool = Field(alias='self-harm')", "sexual: bool = Field(1)")
    text = "\n    ".join(["class Categories(Model):", *fields])

    assert sdk(types=text).values("toy.types:Categories") == {"hate", "self-harm", "sexual"}


def test_a_stub_describes_a_module_built_at_run_time(sdk: Write, tmp_path: Path) -> None:
    sources = sdk(pb2="DESCRIPTOR = b'...'\nbuild(globals())\n")
    stub = (
        "class State(int, metaclass=Wrapper):\n    __slots__ = ()\n    REJECTED: ClassVar[State]\n"
    )
    (tmp_path / "toy/pb2.pyi").write_text(stub, encoding="utf-8")

    assert sources.values("toy.pb2:State") == {"REJECTED"}


def test_a_field_has_the_values_of_its_type(sdk: Write) -> None:
    sources = sdk(
        types='class Choice(Model):\n    index: int\n    reason: Optional[Literal["stop"]] = None\n'
    )

    assert sources.values("toy.types:Choice.reason") == {"stop"}


def test_a_field_may_be_inherited(sdk: Write) -> None:
    sources = sdk(
        base='class Base(Model):\n    reason: Literal["stop"]\n',
        types="from .base import Base\nclass Choice(Base, Unknown):\n    index: int\n",
    )

    assert sources.values("toy.types:Choice.reason") == {"stop"}


def test_a_field_of_a_union_has_the_values_of_every_member(sdk: Write) -> None:
    sources = sdk(
        one='class One(Model):\n    code: Literal["one"]\n',
        two='class Two(Model):\n    code: Literal["two"]\n',
        types=(
            "from .one import One\nfrom toy.two import Two as Other\n"
            "Inner = Union[One, str]\nError = Annotated[Union[Inner, Other], Tag('code')]\n"
        ),
    )

    assert sources.values("toy.types:Error.code") == {"one", "two"}


def test_a_field_further_in_has_the_values_of_every_way_there(sdk: Write) -> None:
    sources = sdk(
        types=(
            'class Reject(TypedDict):\n    type: Literal["reject"]\n'
            'class Allow(TypedDict):\n    type: Literal["allow"]\n'
            "class Output:\n    behavior: Reject | Allow = field(default=None)\n"
        )
    )

    assert sources.values("toy.types:Output.behavior.type") == {"allow", "reject"}


@pytest.mark.parametrize(
    "text",
    [
        "from .deep.reasons import Reason",
        "from toy.deep.reasons import Reason",
        "from .deep import reasons\nReason = reasons.Reason",
        "from .deep.reasons import *",
        "import toy.deep.reasons as there\nReason = there.Reason",
        "from .deep import Reason",
    ],
)
def test_names_are_followed_to_where_they_are_defined(sdk: Write, text: str) -> None:
    sources = sdk(
        **{
            "types": text,
            "deep/__init__": "from .reasons import Reason as Reason",
            "deep/reasons": "from ..words import Stop\nReason = Union[Stop, Literal['refusal']]",
            "words": 'Stop = Literal["stop"]',
        }
    )

    assert sources.values("toy.types:Reason") == {"stop", "refusal"}


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("toy.nowhere:Reason", "there is no module `toy.nowhere`"),
        ("toy.types:Nothing", "`toy.types` has no `Nothing`"),
        ("toy.types:Open", "declares no values"),
        ("toy.types:Model.nothing", "declares no values"),
        ("toy.types:Circle", "has no `Circle`"),
        ("toy.types:Loop", "declares no values"),
        ("toy.types:Loop.field", "declares no values"),
        ("toy.types:Foreign", "has no `Foreign`"),
        ("toy.types:Elsewhere", "declares no values"),
        ("toy.types:Empty", "declares no values"),
    ],
)
def test_a_place_that_is_gone_or_says_nothing_is_an_error(
    sdk: Write, place: str, problem: str
) -> None:
    sources = sdk(
        types=(
            "from toy.types import Circle\nfrom pydantic import Foreign\nOpen = Union[str, Any]\n"
            "Loop = Union['Loop', str]\nOdd = f(x)\na.b = 3\nElsewhere = Union[a.b.c, gone.Name]\n"
            "class Empty(Enum):\n    '''no member'''\n    MADE = auto()\n"
            "class Model(Foreign):\n    reason: str\n"
        )
    )

    with pytest.raises(MissingPlaceError, match=problem):
        sources.values(place)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_shape_of_botocore_has_the_values_of_its_newest_version(
    tmp_path: Path, zipped: bool
) -> None:
    for version, values in (("2023-09-30", ["old"]), ("2024-01-01", ["BLOCKED", "NONE"])):
        folder = tmp_path / "botocore/data/toy" / version
        folder.mkdir(parents=True)
        shapes = {"Action": {"enum": values}, "Finding": {"members": {"valid": {}}}, "Text": {}}
        raw = json.dumps({"shapes": shapes}).encode()
        name = "service-2.json.gz" if zipped else "service-2.json"
        (folder / name).write_bytes(gzip.compress(raw) if zipped else raw)
    sources = Sources(tmp_path)

    assert sources.values("toy/Action") == {"BLOCKED", "NONE"}
    assert sources.values("toy/Finding") == {"valid"}
    for place in ("toy/Nothing", "toy/Text", "nowhere/Action"):
        with pytest.raises(MissingPlaceError):
            sources.values(place)
