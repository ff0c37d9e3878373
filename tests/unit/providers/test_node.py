import contextlib
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.providers.node import ABSENT, Node, ReadBudget, ResponseTooLargeError, to_bounded_json


class Reason(str, Enum):  # noqa: UP042 - as SDKs have them
    SAFETY = "SAFETY"


class State(IntEnum):
    MATCH_FOUND = 2


class Pair(NamedTuple):
    left: int
    right: int


class Slotted:
    __slots__ = ("kept", "unset")

    def __init__(self) -> None:
        self.kept = 1


class OneSlot:
    __slots__ = "only"  # noqa: PLC0205 - allowed, and met

    def __init__(self) -> None:
        self.only = 1


class Extra:
    def __init__(self) -> None:
        self.declared = "a"
        self.__pydantic_extra__ = {"added": "b"}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["__pydantic_extra__"][name]
        except KeyError:
            raise AttributeError(name) from None

    def method(self) -> str:  # noqa: D102 - see its text
        return "not a field"


class Broken:
    @property
    def field(self) -> str:  # noqa: D102 - raises
        raise RuntimeError

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        raise RuntimeError


class BrokenNames(dict[str, Any]):
    def __iter__(self) -> Any:
        raise RuntimeError


class Message:
    """As a protocol buffer: enums are numbers, and the descriptor knows their words."""

    DESCRIPTOR = SimpleNamespace(
        fields_by_name={
            "state": SimpleNamespace(
                enum_type=SimpleNamespace(values_by_number={7: SimpleNamespace(name="REJECTED")})
            ),
            "count": SimpleNamespace(enum_type=None),
        }
    )
    state = 7
    count = 7


def test_a_name_is_found_in_either_spelling() -> None:
    assert Node({"block_reason": "x"})["blockReason"].path == "block_reason"
    assert Node({"blockReason": "x"})["blockReason"].text == "x"


def test_a_path_says_how_a_value_was_reached() -> None:
    node = Node({"choices": [{"message": {"refusal": "no"}}]})
    [choice] = node["choices"]
    assert choice["message"]["refusal"].path == "choices[0].message.refusal"
    assert repr(choice) == "<Node choices[0]>"
    assert repr(node) == "<Node .>"


def test_a_missing_node_is_absent_at_any_depth() -> None:
    assert not Node({"a": None})["a"]["b"]["c"]
    assert list(Node("text")) == []
    assert list(Node({"a": 1})) == []
    assert list(Node(b"bytes")) == []
    assert Node([1])["a"] is ABSENT


def test_enum_members_read_as_their_word() -> None:
    assert Node(Reason.SAFETY).text == "SAFETY"
    assert Node(State.MATCH_FOUND).text == "MATCH_FOUND"
    assert Node(SimpleNamespace(reason=Reason.SAFETY))["reason"].text == "SAFETY"
    assert Node(3).text is None


def test_protocol_buffers_read_as_words() -> None:
    node = Node(Message())
    assert node["state"].text == "REJECTED"
    assert node["count"].number == 7
    assert dict(node.fields())["state"].text == "REJECTED"


def test_a_wrapped_protocol_buffer_shows_its_fields() -> None:
    wrapper = SimpleNamespace(_pb=Message(), state=State.MATCH_FOUND)
    assert [name for name, _ in Node(wrapper).fields()] == ["state"]
    assert [name for name, _ in Node(SimpleNamespace(_pb=Message())).fields()] == []


def test_objects_show_their_fields() -> None:
    assert [name for name, _ in Node(Slotted()).fields()] == ["kept"]
    assert [name for name, _ in Node(OneSlot()).fields()] == ["only"]
    assert [name for name, _ in Node(Extra()).fields()] == ["declared", "added"]
    assert [name for name, _ in Node(SimpleNamespace(a=1, _b=2)).fields()] == ["a"]


def test_named_tuples_have_fields_and_entries() -> None:
    pair = Pair(1, 2)
    assert Node(pair)["left"].number == 1
    assert [name for name, _ in Node(pair).fields()] == ["left", "right"]


def test_methods_are_no_fields() -> None:
    assert not Node(Extra())["method"]


def test_broken_objects_read_as_empty() -> None:
    assert not Node(Broken())["field"]
    assert list(Node(Broken())) == []
    assert list(Node(BrokenNames(a=1)).fields()) == []


@pytest.mark.parametrize(("raw", "number"), [(1, 1), (1.5, 1.5), (True, None), ("1", None)])
def test_numbers_are_numbers_alone(raw: Any, number: float | None) -> None:
    assert Node(raw).number == number


def test_only_true_is_true() -> None:
    assert Node(True).is_true
    assert not Node(1).is_true


@given(st.integers(0, 300), st.integers(1, 5), st.sampled_from(["field", "entries", "fields"]))
def test_looking_ends(budget: int, width: int, how: str) -> None:
    """INVARIANT: reading any object ends after a bounded number of steps."""
    endless: dict[str, Any] = {}
    endless["a"] = endless
    endless["many"] = [endless] * width
    looks = {
        "field": lambda node: node["a"],
        "entries": lambda node: [*node["many"]][-1],
        "fields": lambda node: dict(node.fields())["a"],
    }
    node, steps = Node(endless, budget=ReadBudget(budget)), 0
    with contextlib.suppress(ResponseTooLargeError):
        while steps <= budget:
            node = looks[how](node)
            steps += 1
    assert steps <= budget


def test_released_budget_can_be_spent() -> None:
    budget = ReadBudget(100)
    budget.reserve()
    with pytest.raises(ResponseTooLargeError):
        budget.spend(26)
    budget.release()
    budget.spend(74)
    with pytest.raises(ResponseTooLargeError):
        budget.spend(1)


def test_a_long_text_costs_more_than_a_short_one() -> None:
    budget = ReadBudget(10)

    assert Node("x" * 1000, budget=budget).text
    assert budget.left == 10
    with pytest.raises(ResponseTooLargeError):
        _ = Node("x" * 20_000, budget=budget).text


def test_a_derived_node_spends_the_same_budget() -> None:
    budget = ReadBudget(1)
    beside = Node({}, budget=budget).derive({"a": 1}, "body")

    assert beside["a"].path == "body.a"
    with pytest.raises(ResponseTooLargeError):
        _ = beside["a"]


class Model:
    """An object as model libraries make them: names that are missing end in an exception."""

    __pydantic_extra__: dict[str, object] | None = None

    def __init__(self, **own: object) -> None:
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> object:
        msg = f"nobody needs to ask for {name}"
        raise AssertionError(msg)

    @property
    def computed(self) -> str:
        """Something that is not kept."""
        return "made"


def test_missing_attributes_are_not_invented() -> None:
    bare, more = Model(kept=1), Model(__pydantic_extra__={"extra": "here"})

    assert Node(bare)["kept"].number == 1
    assert Node(bare)["computed"].text == "made"
    assert not Node(bare)["missing"].present
    assert Node(more)["extra"].text == "here"
    assert not Node(more)["missing"].present


class Lazy:
    """An object that makes its fields up when asked."""

    def __getattr__(self, name: str) -> str:
        return f"made up {name}"


class Own:
    """An object with a way of its own to give anything out."""

    def __getattribute__(self, name: str) -> object:
        return object.__getattribute__(self, name) if name[0] == "_" else f"given {name}"


def test_objects_with_their_own_getattr_are_read() -> None:
    assert Node(Lazy())["anything"].text == "made up anything"
    assert Node(Own())["anything"].text == "given anything"


class Wrapped:
    """An object that passes for the mapping it wraps."""

    def __init__(self, inner: dict[str, object]) -> None:
        self._inner = inner

    @property  # type: ignore[misc] # the type system knows no such disguise
    def __class__(self) -> type:
        return dict

    def get(self, name: str) -> object:
        """Return an entry of what is wrapped."""
        return self._inner.get(name)


class Unset(Model):
    """A model that was not set up: even what it keeps beside its fields is missing."""

    @property
    def __pydantic_extra__(self) -> None:  # type: ignore[override]
        raise AttributeError

    def __getattr__(self, name: str) -> object:
        raise AttributeError(name)


def test_odd_objects_are_read_all_the_same() -> None:
    assert Node(Wrapped({"kept": "here"}))["kept"].text == "here"
    assert not Node(Unset(kept=1))["missing"].present
    assert Node(Unset(kept=1))["kept"].number == 1


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (None, None),
        (True, True),
        ("x", "x"),
        (b"x", "x"),
        (2, 2),
        ([], []),
        ({}, {}),
        ({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "c"}]}),
        (SimpleNamespace(a=1), {"a": 1}),
        ((1, 2), [1, 2]),
        (object(), {}),
    ],
)
def test_plain_values_stay_as_they_are(raw: Any, value: Any) -> None:
    assert to_bounded_json(raw) == (value, False)


@pytest.mark.parametrize("raw", [float("nan"), float("inf"), 2**80, "x" * 5000, "\ud800"])
def test_a_value_that_does_not_fit_is_marked_as_cut(raw: Any) -> None:
    assert to_bounded_json(raw).cut


def test_many_values_are_cut() -> None:
    assert to_bounded_json(list(range(10_000))).cut
    assert len(to_bounded_json(list(range(10_000))).value) < 600
    assert to_bounded_json({str(number): number for number in range(10_000)}).cut


def test_a_loop_ends() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert to_bounded_json(loop).cut
