"""Here-documents: their bodies, their ends, and the rest of their lines."""

from collections.abc import Iterator

import pytest

from demur.guards.static.shell_script import read_script
from demur.guards.static.shell_words import (
    CaseCommand,
    CommandGroup,
    CommandList,
    ConditionalCommand,
    ForLoop,
    PieceKind,
    ShellFunction,
    ShellNode,
    ShellPipeline,
    ShellScript,
    ShellWord,
    SimpleCommand,
    WhileLoop,
)


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


def test_commands_after_a_here_document_are_read() -> None:
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


def flat(script: ShellScript) -> Iterator[SimpleCommand]:
    """Yield all simple commands, however deep."""
    for node in script.nodes:
        yield from simple(node)


def simple(node: ShellNode) -> Iterator[SimpleCommand]:
    if isinstance(node, SimpleCommand):
        yield node
        words = [*node.words, *(assignment.value for assignment in node.assignments)]
        pieces = [piece for word in words for piece in word.pieces]
        for piece in pieces:
            yield from flat(piece.script) if piece.script else ()
    else:
        for inner in parts(node):
            yield from simple(inner)


def parts(node: ShellNode) -> list[ShellNode]:
    """Return the commands directly inside a command."""
    if isinstance(node, ShellPipeline):
        return list(node.stages)
    if isinstance(node, CommandList):
        return [node.first, *(choice for _, choice in node.rest)]
    if isinstance(node, ConditionalCommand):
        return [each for branch in node.branches for script in branch for each in script.nodes]
    if isinstance(node, CaseCommand):
        return [each for _, body in node.branches for each in body.nodes]
    if isinstance(node, WhileLoop):
        return [*node.condition.nodes, *node.body.nodes]
    assert not isinstance(node, SimpleCommand)
    return list(node.body.nodes)


def commands(text: str) -> list[str]:
    return [" ".join(map(word_text, node.words)) for node in flat(read_script(text))]


def word_text(word: ShellWord) -> str:
    return "".join(piece.text for piece in word.pieces if piece.kind is not PieceKind.COMMAND)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a b; c", ["a b", "c"]),
        ("a && b || c & d", ["a", "b", "c", "d"]),
        ("a | b |& c", ["a", "b", "c"]),
        ("a\n\n# note\nb # more", ["a", "b"]),
        ("a \\\n b", ["a b"]),
        ("(a; b) && { c; d; }", ["a", "b", "c", "d"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c; do d; done", ["a", "b", "c", "d"]),
        ("for x in 1 2; do b; done", ["b"]),
        ("for x\ndo b\ndone", ["b"]),
        ("select x in 1 2; do b; done", ["b"]),
        ("case $x in a|b) c;; *) d;; esac", ["c", "d"]),
        ("case x in\n(a) b ;;\nesac; c", ["b", "c"]),
        (
            "case x in\na)\n b\n ;;\n# it's\n'c d' | \\\n e)\n f; g & h ;;&\n*) i ;& esac",
            [
                "b",
                "f",
                "g",
                "h",
                "i",
            ],
        ),
        ("case x in @(a|b)) c;; esac", ["c"]),
        ("if a; then # it's\n b; fi", ["a", "b"]),
        ("a | # it's\n b", ["a", "b"]),
        ("echo `if a; then b; fi`; c", ["echo ", "a", "b", "c"]),
        ("a\x1fb c\u00a0d", ["a\x1fb c\u00a0d"]),
        ("! a; time b; coproc c", ["a", "b", "c"]),
        ("[[ -f a && b < c ]] || d", ["[[ -f a b c ]]", "d"]),
        ("f() { a; }", ["a"]),
        ("function f { a; }", ["a"]),
        ("function f() { a; }", ["a"]),
        ("f () ( a )", ["a"]),
        ("echo $(a `b`) <(c)", ["echo  <", "a ", "b", "c"]),
        ('echo "$(a)" `b`', ["echo  ", "a", "b"]),
        ("a |\n b", ["a", "b"]),
        ("a ||\n b", ["a", "b"]),
        ("x=(1 2 3) y=4 a", ["a"]),
        ("fi; a", ["a"]),
        ("x=(a;b) c", ["c"]),
        ("while a; do b; donee; done", ["a", "b", "donee"]),
        ('a "x `b` y"', ["a x  y", "b"]),
        ("a ` b", ["a ", "b"]),
        (") a", ["a"]),
        ("a |", ["a"]),
        ("{a,b} c", ["{a,b} c"]),
        ("a }", ["a }"]),
        ("in a", ["in a"]),
        ("case", []),
        ("case x in", []),
        ("case x in a b", ["a b"]),
        ("case x in a) ) b;; esac", ["b"]),
        ("for", []),
        ("a @(b|c) d", ["a @(b|c) d"]),
        ("a @(b", ["a @(b"]),
        ("[[ a\nb", ["[[ a", "b"]),
        ("iffy; donee", ["iffy", "donee"]),
        ("a # b", ["a"]),
        ("a#b", ["a#b"]),
        ("(a", ["a"]),
    ],
)
def test_statements_become_commands(text: str, want: list[str]) -> None:
    assert commands(text) == want


def test_arithmetic_runs_nothing_but_the_substitutions_in_it() -> None:
    [plain] = flat(read_script("echo $((1 + (2 * 3)))"))
    [nested] = flat(read_script("echo $(( $(rm x) + 1 ))"))
    [group] = flat(read_script("((x = $(rm x)))"))
    [[piece], [outer], [let]] = (node.words[1].pieces for node in (plain, nested, group))

    assert (piece.kind, piece.text) == (PieceKind.VARIABLE, "((")
    for each, want in ((piece, []), (outer, ["rm x"]), (let, ["rm x"])):
        assert each.operand is not None
        inner = [found.script for found in each.operand.pieces if found.script]
        assert [
            word_text(node.words[0]) + " x" for script in inner for node in flat(script)
        ] == want


def test_brackets_in_a_substitution_are_no_arithmetic_unless_they_close_together() -> None:
    assert commands("echo $((rm -rf /); (ls))") == ["echo ", "rm -rf /", "ls"]
    assert commands("((a); (b))") == ["a", "b"]
    assert read_script("echo $((1 + (2 * 3)))").problem == ""


def test_assignments_and_redirections_belong_to_their_command() -> None:
    [node] = read_script("A=1 B+=2 C[0]=3 cmd x > out 2>> err < in 3<> both").nodes
    assert isinstance(node, SimpleCommand)

    assert [(a.name, a.append) for a in node.assignments] == [
        ("A", False),
        ("B", True),
        ("C", False),
    ]
    assert [(r.descriptor, r.operator) for r in node.redirects] == [
        ("", ">"),
        ("2", ">>"),
        ("", "<"),
        ("3", "<>"),
    ]
    assert node.end == len("A=1 B+=2 C[0]=3 cmd x > out 2>> err < in 3<> both")


def test_groups_loops_and_functions_keep_their_parts() -> None:
    group, loop, function, either = read_script(
        "{ a; } > out; for x in 1 2; do b; done < in; f() { c; }; d || e"
    ).nodes

    assert isinstance(group, CommandGroup)
    assert group.redirects[0].operator == ">"
    assert isinstance(loop, ForLoop)
    assert (loop.name, len(loop.words or ()), loop.redirects[0].operator) == ("x", 2, "<")
    assert isinstance(function, ShellFunction)
    assert function.name == "f"
    assert isinstance(either, CommandList)
    assert [operator for operator, _ in either.rest] == ["||"]


def test_branches_lists_and_backgrounds_keep_their_parts() -> None:
    branches, loop, case, background, negated, items, element = read_script(
        "if a; then b; elif c; then d; else e; fi; until a; do b; done; case x in a|b) c;; esac;"
        " a && b & ! a; x=(1 '2 3'); y[$i]=4"
    ).nodes

    assert isinstance(branches, ConditionalCommand)
    assert [len(condition.nodes) for condition, _ in branches.branches] == [1, 1, 0]
    assert isinstance(loop, WhileLoop)
    assert isinstance(case, CaseCommand)
    assert [len(patterns) for patterns, _ in case.branches] == [2]
    assert isinstance(background, CommandGroup)
    assert background.subshell
    assert isinstance(negated, ShellPipeline)
    assert negated.negated
    assert isinstance(items, SimpleCommand)
    assert len(items.assignments[0].items or ()) == 2
    assert isinstance(element, SimpleCommand)
    assert element.assignments[0].subscript == "$i"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a 'b", "a quote is never closed"),
        ('a "b', "a quote is never closed"),
        ("a $'b", "a quote is never closed"),
        ("a `b", "a backtick is never closed"),
        ("a $(b", "`)` is missing"),
        ("(a", "`)` is missing"),
        ("{ a", "`}` is missing"),
        ("if a; then b", "`fi` is missing"),
        ("a | ", "a pipe leads nowhere"),
        ("done", "`done` is not expected here"),
        ("a; )", "`)` is not expected here"),
        ("a <<E\nb", "a here-document is never closed"),
        ("a <<E", "a here-document has no body"),
        ("$(" * 99, "substitutions nest too deep"),
    ],
)
def test_a_script_that_a_shell_would_refuse_is_a_problem(text: str, problem: str) -> None:
    assert read_script(text).problem == problem


def test_a_sound_text_has_no_problem() -> None:
    assert read_script("a 'b' \"c\" $(d) `e` && (f)").problem == ""


# What bash calls a word, another parser sees alike, where that one reads bash at all.
SAME = [
    "ls -la /tmp",
    "git commit -m 'a b' --amend",
    'echo "a b" c\\ d',
    "cat a | grep b | wc -l",
    "a && b || c; d & e",
    "if a; then b; else c; fi",
    "for i in 1 2 3; do echo $i; done",
    "while read l; do echo $l; done",
    "f() { a; b; }; f",
    "(a; b); { c; d; }",
    "x=$(a b | c) d",
    "echo `a b`",
    "case $x in a) b;; *) c;; esac",
    "a > b 2> c < d",
    "! a && time_it b",
    "diff <(a b) <(c d)",
    "cat <<'EOF'\na b\nEOF\nc d",
]


@pytest.mark.parametrize("text", SAME)
def test_another_parser_sees_the_same_programs(text: str) -> None:
    tree_sitter = pytest.importorskip("tree_sitter")
    bash = pytest.importorskip("tree_sitter_bash")
    parser = tree_sitter.Parser(tree_sitter.Language(bash.language()))
    names = []
    waiting = [parser.parse(text.encode()).root_node]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        if node.type == "command_name":
            names.append(node.text.decode())
    ours = [word_text(node.words[0]) for node in flat(read_script(text)) if node.words]

    assert sorted(names) == sorted(name for name in ours if name != "case")
