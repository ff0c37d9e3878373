"""The command guard reads any command in bounded time and raises nothing."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.property_runs import examples

from demur.codes.registry import Registry
from demur.guards.code_execution import guard
from demur.guards.code_execution.call import Value
from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.shell_state import (
    ANY_TEXT,
    MAX_READINGS,
    ShellState,
    bound_readings,
)
from demur.guards.contract import finding_problem
from demur.model.finding import Action, Finding

CORE = Registry.load()
CONFIG = CommandConfig()
MANY = settings(max_examples=examples(250))
LANGUAGES = st.sampled_from(list(Language))
ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=120)
PIECES = st.sampled_from(
    [
        *("rm -rf /", "ls ", "echo ", "curl http://a.example/x ", "sudo ", "eval ", "bash -c "),
        *(
            "$(",
            ")",
            "`",
            "'",
            '"',
            "\\",
            "|",
            "&&",
            "||",
            ";",
            "\n",
            "<<E\n",
            "E\n",
            "<(",
            ">",
            "<<<",
        ),
        *(
            "{a,b}",
            "{1..9}",
            "${x:-",
            "}",
            "$x",
            "~",
            "*",
            "A=",
            "f()",
            "{ ",
            "for i in ",
            "do ",
            "done",
        ),
        *(
            "if ",
            "then ",
            "fi ",
            "case x in ",
            "esac",
            "[[ ",
            "]] ",
            "# ",
            "\0",
            "\ud800",
            "é",
            "\x1b",
        ),
        *(
            "import os\n",
            "os.system(",
            "exec(",
            "iex ",
            "Get-Item ",
            "@'\n",
            "<#",
            "%TEMP%",
            "C:\\x ",
        ),
        *("xargs ", "find . -exec ", "env -S ", "base64 -d ", "-enc ", "cmd /c "),
    ]
)
TEXTS = st.one_of(ANYTHING, st.lists(PIECES, max_size=25).map("".join))
PLAIN = st.text("abcdefghij /.-_=", max_size=20)


def found(text: str, language: Language = Language.SHELL) -> list[Finding]:
    return list(guard.check(Command(text=text, language=language), CONFIG))


@MANY
@given(TEXTS, LANGUAGES)
def test_every_text_is_read_and_every_finding_keeps_the_contract(
    text: str, language: Language
) -> None:
    findings = found(text, language)
    starts = [finding.span.start for finding in findings if finding.span]

    for finding in findings:
        facts: dict[str, Any] = {"surface": guard.SURFACE, "codes": guard.CODES}
        assert finding_problem(finding, text=text, registry=CORE, **facts) is None
    assert starts == sorted(starts)


@MANY
@given(TEXTS, LANGUAGES)
def test_the_same_text_is_found_the_same(text: str, language: Language) -> None:
    assert found(text, language) == found(text, language)


VALUES = st.sampled_from("abcdefghijklm").map(Value)
STATES = st.dictionaries(
    st.sampled_from("xyz"), st.lists(VALUES, min_size=1, max_size=12), max_size=3
)


@MANY
@given(st.lists(VALUES))
def test_a_bound_on_readings_hides_nothing(values: list[Value]) -> None:
    # INVARIANT: a reading beyond the bound becomes an unknown one, and none is dropped.
    bounded = bound_readings(values, ANY_TEXT)

    assert len(bounded) <= MAX_READINGS
    assert set(values) <= set(bounded) or ANY_TEXT in bounded


def build_state(variables: dict[str, list[Value]]) -> ShellState:
    state = ShellState("/desk")
    for name, values in variables.items():
        state.assign(name, *values)
    return state


@MANY
@given(STATES, STATES)
def test_a_branch_hides_no_value(
    ours: dict[str, list[Value]], theirs: dict[str, list[Value]]
) -> None:
    # INVARIANT: each reading that a way may leave is a reading after both ways.
    first, second = build_state(ours), build_state(theirs)
    merged = first.merge_state(second)

    for name in "xyz":
        readings = {*first.read_variable(name), *second.read_variable(name)}
        after = merged.read_variable(name)
        assert readings <= set(after) or (ANY_TEXT,) in after


BRANCHES = st.lists(
    st.sampled_from(
        [
            "false && x=ls",
            "test -f a || x=ls",
            "if a; then x=ls; fi",
            "(x=ls)",
            "x=ls &",
            "a | x=ls",
            "while a; do x=ls; done",
            "case a in b) x=ls;; esac",
            "y=$(x=ls)",
            "f() { local x=ls; }; f",
            "x=ls true",
            "unset y",
            "cd /tmp",
        ]
    ),
    max_size=4,
)


@MANY
@given(BRANCHES)
def test_an_assignment_that_may_not_happen_hides_no_command(branches: list[str]) -> None:
    text = "\n".join(["x='rm -rf /'", *branches, "$x"])

    assert [f for f in found(text) if f.action is not Action.WARN]


QUOTED = st.lists(
    st.sampled_from(["plain", "'", '"', "\\", "ansi", "brace", "variable"]), min_size=2, max_size=2
)


def disguised(letter: str, how: str) -> str:
    """Return one letter of a command name in another spelling."""
    spellings = {
        "plain": letter,
        "'": f"'{letter}'",
        '"': f'"{letter}"',
        "\\": f"\\{letter}",
        "ansi": f"$'\\x{ord(letter):02x}'",
        "brace": f"${{unset_:-{letter}}}",
        "variable": f'"${{unset_:-{letter}}}"',
    }
    return spellings[how]


@given(QUOTED, st.sampled_from(["sudo ", "env A=b ", "nohup ", "time ", "! ", "X=1 ", ""]))
def test_no_spelling_of_a_name_hides_it(how: list[str], prefix: str) -> None:
    name = disguised("r", how[0]) + disguised("m", how[1])

    assert "DELETE_ROOT" in [f.evidence["rule"] for f in found(f"{prefix}{name} -rf /")]


WRAPPERS = st.lists(
    st.sampled_from(
        [
            "{}; ls",
            "ls && {}",
            "ls || {}",
            "({})",
            "if true; then {}; fi",
            "while true; do {}; done",
            "f() {{ {}; }}; f",
            "echo $({})",
            "sudo {}",
            "timeout 5 {}",
        ]
    ),
    max_size=3,
)


@given(WRAPPERS, PLAIN)
def test_nothing_around_a_command_hides_it(wrappers: list[str], before: str) -> None:
    text = "rm -rf /"
    for wrapper in wrappers:
        # A prefix takes one command, not a list: keep it inside.
        prefixed = wrapper.startswith(("sudo", "timeout")) and not text.startswith("rm")
        # `$((` starts arithmetic, in which no command runs.
        text = text if prefixed else wrapper.format(text).replace("$((", "$( (")
    text = f"echo {before.replace('-', '')}; {text}"

    assert "DELETE_ROOT" in [f.evidence["rule"] for f in found(text)]


@given(st.text(st.characters(exclude_characters="'", codec="utf-8"), max_size=60))
def test_quoted_words_are_only_words(text: str) -> None:
    findings = found(f"echo '{text}'")

    assert [f for f in findings if f.code != "SECRET_LEAK" and f.action is not Action.WARN] == []


HUGE = [
    "$(" * 50_000,
    "`" * 100_000,
    "'" * 99_999,
    "(" * 100_000,
    "{" * 100_000,
    "{a,b}" * 20_000,
    "\n" * 100_000,
    "<<a " * 25_000,
    "rm -rf / ;" * 10_000,
    "A=$A$A;" * 14_000,
    "f(){ f|f; };f;" * 7_000,
    "terraform " + "destroy " * 12_000,
    '@"\n' + "\n" * 99_000,
    "net.sockets.tcpclient " * 4_500,
    'system("' * 12_000,
    "x='" + "a" * 90_000 + "'; " + "terraform $x;" * 500,
    "import os\n" * 10_000,
    "eval " * 20_000,
    "(a)||" * 16_000,
    "echo " + "cm0g" * 20_000 + "| base64 -d | sh",
    "alias a=b;" * 10_000,
    "".join(f"alias a{n}='a{n + 1} a{n + 1}';" for n in range(3_000)) + "a0",
    "a||b=$b$b;" * 9_000,
    "if a; then x=$x$x; fi;" * 4_000,
    "for a in 1 2 3 4 5 6 7 8 9; do " * 20 + "b" + "; done" * 20,
    "while a; do x=$x.$x;" * 20 + "b" + "; done" * 20,
    "((" * 50_000,
    "$((1)" * 20_000,
    "case a in " + "b) c;;" * 15_000 + "esac",
    "x=(" + "a " * 45_000 + ');"${x[@]}"',
    "set -- a b c d e f g h;" + "a && shift;" * 9_000 + '"$@"',
    "cd a;cd /b;" * 9_000 + "rm -rf *",
    "f(){ f a|f b; };f;" * 5_000,
    "x=a;" + "b && x=$x/*;" * 7_000 + "${x##*/}${x%%/*}",
]


@pytest.mark.parametrize("text", HUGE, ids=lambda text: repr(text[:20]))
def test_a_huge_text_takes_bounded_time(text: str) -> None:
    start = time.perf_counter()
    found(text, Language.AUTO)

    # A bound that only quadratic work on this much text would break, however busy the machine.
    assert time.perf_counter() - start < 30
