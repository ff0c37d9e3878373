import ast

import pytest

from demur.guards.static.python_syntax import ConstantFolder, FoldedConstant, parse_leniently


def test_a_good_file_is_parsed_whole() -> None:
    parsed = parse_leniently("import os\nos.getcwd()\n")

    assert parsed.trouble is None
    assert len(parsed.tree.body) == 2


def test_statements_around_a_broken_one_are_parsed_at_their_lines() -> None:
    parsed = parse_leniently(
        "print 'old'\n\n@decorated\n@twice\ndef kept():\n    return 1\nx = 2\n"
    )

    assert parsed.trouble is not None
    assert parsed.trouble.line == 1
    assert [(type(part).__name__, part.lineno) for part in parsed.tree.body] == [
        ("FunctionDef", 5),
        ("Assign", 7),
    ]


def test_syntax_of_a_later_python_hides_nothing_else() -> None:
    parsed = parse_leniently("type Pair = tuple[int, int]\nother = t'{x}'\nimport ctypes\n")

    assert any(isinstance(part, ast.Import) for part in parsed.tree.body)


@pytest.mark.parametrize(
    "text", ["x = 1\0", "(" * 300 + ")" * 300, "-" * 100_000 + "1", "\ud800 = 1", "", "if"]
)
def test_nothing_that_is_no_python_raises(text: str) -> None:
    parse_leniently(text)


def test_a_files_own_warnings_are_not_ours() -> None:
    assert parse_leniently("x = '\\d'\nassert (1, 'x')\n").trouble is None


def folded(text: str, **names: str) -> FoldedConstant | None:
    constants = {name: ast.parse(value, mode="eval").body for name, value in names.items()}
    return ConstantFolder(constants).fold(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    "text",
    [
        "'sys' + 'tem'",
        "''.join(['sys', 'tem'])",
        "''.join(map(chr, [115, 121, 115, 116, 101, 109]))",
        "chr(115) + 'ystem'",
        "chr(100 + 15) + 'ystem'",
        "chr(200 - 85) + 'ystem'",
        "chr(114 ^ 1) + 'ystem'",
        "'metsys'[::-1]",
        "base64.b64decode('c3lzdGVt').decode()",
        "b64decode('c3lzdGVt').decode('utf-8')",
        "bytes.fromhex('73797374656d').decode()",
        "bytes([115, 121, 115, 116, 101, 109]).decode()",
        "codecs.decode('flfgrz', 'rot13')",
        "'sy-st-em'.replace('-', '')",
        "''.join(chr(ord(c) - 1) for c in 'tztufn')",
        "''.join(reversed('metsys'))",
        "'s1y2s3t4e5m'[::2]",
        "str(bytes([115, 121, 115, 116, 101, 109]), 'ascii')",
        "base64.b64decode(base64.b64encode(b'system')).decode()",
        "f'{a}{b}'",
    ],
)
def test_a_disguised_word_is_read_and_known_as_disguised(text: str) -> None:
    assert folded(text, a="'sys' + ''", b="'tem'") == FoldedConstant("system", True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'system'", "system"),
        ("'SYSTEM'.lower()", "system"),
        ("b'abc'.decode()", "abc"),
        ("['git', 'status']", ["git", "status"]),
        ("name", "x"),
        ("f'{name}y'", "xy"),
        ("'a' * 3", "aaa"),
        ("'abc'[0:2]", "ab"),
        ("['a', 'b'][-1]", "b"),
        ("{'a': 'b'}['a']", "b"),
        ("{'a': 'b'}.get('a')", "b"),
        ("'{} {}'.format('a', 1)", "a 1"),
        ("'%s %s' % ('a', 'b')", "a b"),
        ("'a b'.split()", ["a", "b"]),
        ("['a'] + ['b']", ["a", "b"]),
        ("str(b'ab', 'ascii')", "ab"),
        ("'a long sentence that is broken over ' + 'two lines of code'", None),
    ],
)
def test_a_literal_value_is_not_disguised(text: str, value: object) -> None:
    got = folded(text, name="'x'")

    assert got is not None
    assert not got.hidden
    assert value is None or got.value == value


@pytest.mark.parametrize(
    "text",
    [
        "name",
        "'a' + name",
        "'a' + b'b'",
        "'a' * 30000",
        "'a' % 3",
        "'%9d' % 3",
        "'abc'[9]",
        "{name: 1}['a']",
        "[a for a in name]",
        "[a for a in 'abc' if a]",
        "[a + 1 for a in 'abc']",
        "list(5)",
        "chr(-1)",
        "chr('a')",
        "bytes('abc')",
        "b'\\xff'.decode()",
        "bytes.fromhex('zz')",
        "b64decode(name)",
        "codecs.decode('a', 'none')",
        "'{:>3}'.format(1)",
        "'{0.a}'.format(1)",
        "open('a')",
        "f'{1:>3}'",
        "{}",
        "None",
        "'a'.join(1)",
        "lambda: 1",
    ],
)
def test_a_value_known_only_at_run_time_is_not_a_constant(text: str) -> None:
    assert folded(text) is None


def test_loops_inside_loops_are_folded_within_a_bound() -> None:
    items = f"[{'1, ' * 300}]"

    assert folded("[a for a in items]", items=items) is not None
    assert folded("[[a for a in items] for b in items]", items=items) is None


def test_a_name_that_leads_back_to_itself_is_no_constant() -> None:
    assert folded("a", a="b + 'x'", b="a + 'y'") is None


@pytest.mark.parametrize(
    "text",
    [
        "long.replace('a', long)",
        "long.join([long, long])",
        "f'{long}{long}'",
        "'x' + huge",
        "+".join(["'a'"] * 200),
    ],
)
def test_a_constant_stays_small(text: str) -> None:
    assert folded(text, long=f"'{'a' * 15_000}'", huge=f"'{'a' * 30_000}'") is None


def test_shared_parts_are_folded_once() -> None:
    names = {f"x{n}": f"[{', '.join([f'x{n - 1}'] * 9)}]" for n in range(1, 14)}

    assert folded("x13", x0="1", **names) is not None


def strings(text: str, **names: str) -> str:
    constants = {name: ast.parse(value, mode="eval").body for name, value in names.items()}
    return ConstantFolder(constants).join_strings(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Path.home() / '.ssh' / 'id_rsa'", ".ssh/id_rsa"),
        ("os.path.join(home, '.ssh', name)", ".ssh/id_rsa"),
        ("open(b'/etc/shadow')", "/etc/shadow"),
        ("f(unknown)", ""),
        ("me", ""),
    ],
)
def test_the_parts_of_a_path_are_put_together(text: str, wanted: str) -> None:
    assert strings(text, name="'id_rsa'", me="me + you", you="me") == wanted


def test_a_deep_expression_has_an_end() -> None:
    assert strings("f(" * 60 + "'x'" + ")" * 60) == ""
