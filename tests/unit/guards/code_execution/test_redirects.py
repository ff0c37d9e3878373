"""Here-documents: their bodies, their ends, and what stands on their lines."""

import pytest

from demur.guards.code_execution.shell import read_script
from demur.guards.code_execution.tree import SimpleCommand


def bodies(text: str) -> list[str]:
    nodes = [node for node in read_script(text).nodes if isinstance(node, SimpleCommand)]
    targets = [redirect.target for node in nodes for redirect in node.redirects]
    return ["".join(piece.text for piece in target.pieces) for target in targets]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a <<E\nb\nc\nE\n", ["b\nc\n"]),
        ("a <<E\nE", [""]),
        ("a <<'E'\n$x\nE", ["$x\n"]),
        ("a <<\\E\n$x\nE", ["$x\n"]),
        ("a <<-E\n\tb\n\tE", ["\tb\n"]),
        ("a <<E1 <<E2\nb\nE1\nc\nE2", ["b\n", "c\n"]),
        ("a <<E > out\nb\nE", ["b\n", "out"]),
        ("a <<< b", ["b"]),
    ],
)
def test_a_body_is_read_to_its_delimiter(text: str, want: list[str]) -> None:
    assert bodies(text) == want


def test_what_follows_a_body_is_read_on() -> None:
    script = read_script("a <<E; b\nrm -rf /\nE\nc")

    assert [
        node.words[0].pieces[0].text for node in script.nodes if isinstance(node, SimpleCommand)
    ] == [
        "a",
        "b",
        "c",
    ]


def test_variables_count_in_a_body_unless_its_delimiter_is_quoted() -> None:
    [loose] = read_script("a <<E\n$x\nE").nodes
    [tight] = read_script("a <<'E'\n$x\nE").nodes
    assert isinstance(loose, SimpleCommand)
    assert isinstance(tight, SimpleCommand)

    assert loose.redirects[0].target.pieces[0].kind == "variable"
    assert tight.redirects[0].target.pieces[0].kind == "quoted"


def test_a_line_end_inside_quotes_does_not_start_a_body() -> None:
    script = read_script('a <<E "\n"\nb\nE\nc')

    assert script.problem == ""
    assert [n.words[0].pieces[0].text for n in script.nodes if isinstance(n, SimpleCommand)][
        -1
    ] == "c"


def test_more_bodies_than_anybody_writes_are_a_problem() -> None:
    assert read_script("a " + "<<E " * 99 + "\nE\n" * 99).problem == "a here-document has no body"
