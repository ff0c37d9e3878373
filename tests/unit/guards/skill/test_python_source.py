import ast

from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.document import Document
from demur.guards.skill.python_source import PythonSource


def source(text: str) -> PythonSource:
    return PythonSource(Document("a.py", text), SkillConfig())


def test_calls_come_in_the_order_of_the_file_with_outer_ones_first() -> None:
    found = source("import os\nos.path.join(os.getcwd())()\nopen('x')").calls

    assert [path for _, path in found] == [None, "os.path.join", "os.getcwd", "open"]


def test_a_quote_is_one_short_line() -> None:
    one = source("call(\n  'a',\n  'b')\n" + f"call('{'x' * 99}')")
    short, long = (one.quote(call) for call, _ in one.calls)

    assert short == "call( 'a', 'b')"
    assert long.endswith("…")
    assert len(long) == 61


def test_a_sighting_of_a_whole_file_is_at_its_start() -> None:
    one = source("x = 1")

    assert one.see("RULE", one.tree, "detail")[1:3] == (0, 0)
    assert one.text(ast.Constant(3)) is None
