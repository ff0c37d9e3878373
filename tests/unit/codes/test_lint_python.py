import ast
import sys

import pytest

from demur.codes.lint_python import check_python, find_read_only
from demur.codes.lint_rules import LocatedDiagnostic
from demur.codes.registry import Registry

FROM = "from demur import ReasonCode, format_refusal\n"


def read(source: str | bytes, registry: Registry) -> list[LocatedDiagnostic]:
    return check_python(source.encode() if isinstance(source, str) else source, registry)


def rules(source: str, registry: Registry) -> list[str]:
    return sorted(sighting.rule for sighting in read(source, registry))


@pytest.mark.parametrize(
    "source",
    [
        'print("REFUSED: RCE_RISK: curl")',
        'print("REFUSED: you may not")',
        'print(" REFUSED:RCE_RISK")',
        'print(f"REFUSED: {code}: {detail}")',
        'print(f"REFUSED: RCE_RISK")',
        'print("REFUSED: " f"{code}")',
        'print("REFUSED: " + code + ": " + detail)',
        'print("REFUSED: %s: %s" % (code, detail))',
        'print("REFUSED: {}".format(code))',
        'raise Denied("REFUSED: RCE_RISK")',
    ],
)
def test_a_refusal_line_written_by_hand_is_found_once(source: str, core: Registry) -> None:
    assert rules(source, core) == ["raw-refusal-string"]


@pytest.mark.parametrize(
    "source",
    [
        '"""REFUSED: RCE_RISK: in a docstring."""',
        'class A:\n  x = 1\n  """REFUSED: RCE_RISK: about x."""',
        'MARK = "REFUSED:"',
        'PREFIX = f"REFUSED: "',
        'def f(line):\n  return line.startswith("REFUSED: RCE")',
        'assert line == "REFUSED: RCE_RISK: x"',
        'assert line == "REFUSED: " + code',
        'print("refused: rce", "a REFUSED: b")',
        'print(f"{line} REFUSED: x", b"REFUSED: X", f"", "" + x)',
        'print(f"{x:REFUSED}")',
        'print(1 + 1, MARK + code, "REFUSED")',
    ],
)
def test_texts_that_write_no_refusal_are_quiet(source: str, core: Registry) -> None:
    assert rules(source, core) == []


@pytest.mark.parametrize(
    "code",
    [
        'f"RISK_{score}"',
        '"RISK_%d" % score',
        'f"RISK_{a}_%s" % score',
        '"RISK_{}".format(score)',
        '"RISK_" + str(score)',
        'prefix + "_BLOCK"',
        'a + "_" + b',
        '"_".join(words)',
        'f"{a}{b}"',
    ],
)
def test_a_code_that_is_built_is_dynamic(code: str, core: Registry) -> None:
    [sighting] = read(FROM + f"format_refusal({code})", core)

    assert sighting.rule == "dynamic-code"
    assert sighting.message == f"code built at run time: `{code}`"


@pytest.mark.parametrize(
    "code", ["code", "a + b", "a % b", 'f"{code}"', 'table["x"]', "code.format(x)", "make(1)", "1"]
)
def test_a_code_that_is_passed_on_is_quiet(code: str, core: Registry) -> None:
    assert rules(FROM + f"format_refusal({code})", core) == []


@pytest.mark.parametrize("code", ['"RCE_" + "RISK"', '"RCE_" "RISK"', 'f"RCE_RISK"'])
def test_a_code_that_is_constant_is_judged_as_its_text(code: str, core: Registry) -> None:
    assert rules(FROM + f"format_refusal({code})", core) == []
    assert rules(FROM + f"format_refusal({code.replace('RISK', 'RISC')})", core) == [
        "unregistered-code"
    ]


def test_an_ordinary_list_of_codes_is_quiet(core: Registry) -> None:
    source = 'codes = ["US", "de", "E501", "not found", f"page {n}", 404, None]\n'

    assert rules(source, core) == []
    assert rules(source.replace('"US"', 'f"RISK_{n}"'), core) == ["dynamic-code"]


def test_a_member_that_does_not_exist_is_unregistered_in_any_expression(core: Registry) -> None:
    source = FROM + "if code == ReasonCode.RCE_RISC: ..."
    [sighting] = read(source, core)

    assert (sighting.line, sighting.column, sighting.rule) == (2, 12, "unregistered-code")


def test_a_deprecated_member_may_be_recognised_but_not_emitted(core: Registry) -> None:
    assert rules(FROM + "if code == ReasonCode.OLD_FRAUD_BLOCK: ...", core) == []
    assert rules(FROM + "if code in {ReasonCode.OLD_FRAUD_BLOCK}: ...", core) == []
    assert rules(FROM + "code = ReasonCode.OLD_FRAUD_BLOCK", core) == ["deprecated-code"]


def test_a_fallback_in_a_table_is_quiet_and_emitted_outright_it_warns(core: Registry) -> None:
    assert rules(FROM + "KINDS = {'x': ReasonCode.CONTENT_OTHER}", core) == []
    assert rules(FROM + "format_refusal(ReasonCode.CONTENT_OTHER)", core) == ["broad-code"]


def test_someone_elses_enum_is_not_ours(core: Registry) -> None:
    assert rules("from mine import ReasonCode\nReasonCode.MINE_ALONE", core) == []


def test_a_column_counts_characters_not_bytes(core: Registry) -> None:
    [sighting] = read('é = "ü"; reason_code = "NO_SUCH_CODE"', core)

    assert (sighting.line, sighting.column) == (1, 24)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_python_counts_them(newline: str, core: Registry) -> None:
    lines = ["x = '''", "\x0c\x85\u2028", "'''", "reason_code = 'A_B'"]
    [sighting] = read(newline.join(lines), core)

    assert (sighting.line, sighting.column) == (4, 15)


def test_a_text_over_several_lines_shows_its_first(core: Registry) -> None:
    source = 'print("""REFUSED: RCE_RISK\nmore""")  # demur: allow raw-refusal-string'
    [sighting] = read(source, core)
    [long] = read(source.partition("  #")[0], core)

    assert sighting.rule == "bare-suppression"
    assert long.message == 'refusal line written by hand: `"""REFUSED: RCE_RISK`'


def test_a_suppression_in_a_text_is_none(core: Registry) -> None:
    source = 'print("REFUSED: A_B # demur: allow raw-refusal-string - why")'

    assert rules(source, core) == ["raw-refusal-string"]


def test_comments_count_even_if_the_tokenizer_dislikes_the_end(core: Registry) -> None:
    source = 'print("REFUSED: A_B")  # demur: allow raw-refusal-string - why\n\n\\\r\n'

    # From Python 3.12 on the parser dislikes it as well.
    assert rules(source, core) == (["unreadable"] if sys.version_info >= (3, 12) else [])


@pytest.mark.parametrize(
    ("source", "place", "problem"),
    [
        (b"x = 1\ndef f(:\n", (2, 7), "not Python: "),
        (b"x = 1\n\n\xff = 2\n", (3, 1), "not utf-8 text"),
        (b"\xef\xbb\xbfx = 1\n\n\xc3\xa9 = '\xff'\n", (3, 6), "not utf-8"),
        (b"x = 1\0", (1, 1), "not Python: source code string cannot contain null bytes"),
        (b"# coding: nonsense\n", (1, 1), "not Python: unknown encoding: nonsense"),
        (b"# coding: rot13\n", (1, 1), "not Python: 'rot13' is not a text encoding"),
        (b"# coding: unicode_escape\nx = '\\ud800'\n", (1, 1), "not Python: "),
        (b"\x7fELF\x00\xff\xfe", (1, 1), "not Python: "),
        (b"-" * 100_000, (1, 1), "not Python: nested too deep"),
    ],
    ids=range(9),
)
def test_a_broken_file_is_one_unreadable_sighting(
    source: bytes, place: tuple[int, int], problem: str, core: Registry
) -> None:
    [sighting] = read(source, core)

    assert sighting.rule == "unreadable"
    assert (sighting.line, sighting.column) == place
    assert sighting.message.startswith(problem)


def test_a_declared_encoding_is_honoured(core: Registry) -> None:
    source = "# coding: latin-1\né = 1; reason_code = 'A_B'\n".encode("latin-1")
    [sighting] = read(source, core)

    assert (sighting.line, sighting.column) == (2, 22)


def test_a_dubious_escape_does_not_warn(core: Registry) -> None:
    assert rules("codes = ['\\d']\n", core) == []


def quiet(source: str) -> bool:
    """Return whether the text `"X"` in `source` is only read against."""
    nodes = list(ast.walk(ast.parse(source)))
    [text] = [node for node in nodes if isinstance(node, ast.Constant) and node.value == "X"]
    return id(text) in find_read_only(nodes)


@pytest.mark.parametrize(
    "source",
    [
        'assert line == "X"',
        'if line in ("a", "X"): ...',
        'if line == "X" + code: ...',
        'line.startswith(("X", "Y"))',
        're.compile("X")',
        'parse_refusal("X")',
        'demur.find_refusals(text="X")',
        'self.assertEqual(line, "X")',
        'assert_line("X")',
        'table["X"]',
        '{"X": 1}',
        'match line:\n case "X": ...',
        'print(f"parse({"X"!r})")'.replace('"X"', "'X'"),
    ],
)
def test_a_text_that_is_compared_searched_or_looked_up_is_read(source: str) -> None:
    assert quiet(source)


@pytest.mark.parametrize(
    "source",
    [
        'print("X")',
        'return_value = "X"',
        'assert print("X") == 1',
        'x = {1: "X", **more}',
        'line.replace("a", "X")',
        '(f or g)("X")',
        "print(f\"{'X'}\")",
    ],
)
def test_a_text_that_goes_elsewhere_is_written(source: str) -> None:
    assert not quiet(source)


@pytest.mark.parametrize(
    "source",
    [
        'line = "X"\nparse_refusal(line)',
        'line: str = "X"\nparse_refusal(line)',
        'line = "X"\nother = line\nassert found == other',
        'for line in ["X", "Y"]:\n  parse_refusal(line)',
        '[parse_refusal(line) for line in ("X", "Y")]',
        'LINES = ["X"]\nfor line in LINES:\n  parse_refusal(line)\n  print(f"{line!r}")',
    ],
)
def test_a_name_that_is_only_read_carries_on(source: str) -> None:
    assert quiet(source)


@pytest.mark.parametrize(
    "source",
    [
        'line = "X"\nparse_refusal(line)\nprint(line)',
        'line = "X"\nline += "Y"\nparse_refusal(line)',
        'line = other = "X"\nparse_refusal(line)\nprint(other)',
        'line = self.line = "X"\nparse_refusal(line)',
        'self.line = "X"\nparse_refusal(self.line)',
        'LINES = ["X"]\nfor line in LINES:\n  parse_refusal(line)\n  print(line)',
        'line: str\nline = "X"',
    ],
)
def test_one_use_that_writes_is_enough(source: str) -> None:
    assert not quiet(source)
