"""The output that programs would write, as far as that can be known."""

import pytest

from demur.guards.code_execution.call import EMPTY, Arg, ProgramCall, Taint, Value
from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check
from demur.guards.code_execution.outputs import decode_base64, decode_hex, predict_output
from demur.guards.code_execution.shell_state import ShellState


def written(*words: str, stdin: Value = EMPTY) -> Value:
    scope = ShellState("/desk")
    scope.write_file("known", Value("k"))
    args = tuple(Arg(word, 0, 0) for word in words[1:])
    return predict_output(ProgramCall(words[0], Arg(words[0], 0, 0), args, stdin=stdin), scope)


@pytest.mark.parametrize(
    ("words", "stdin", "want"),
    [
        (("echo", "a", "b"), "", "a b\n"),
        (("echo", "-n", "-e", "a\\x41"), "", "aA"),
        (("echo", "a\\x41"), "", "a\\x41\n"),
        (("printf", "%s", "a\\x41"), "", "a\\x41"),
        (("printf", "%b", "a\\x41"), "", "aA"),
        (("dirname", "/srv/x"), "", "/srv"),
        (("basename", "/srv/x.sh", ".sh"), "", "x"),
        (("echo",), "", "\n"),
        (("printf", "%s-%s", "a", "b"), "", "a-b"),
        (("printf", "--", "a%%\\x41%s"), "", "a%A"),
        (("printf",), "", ""),
        (("cat",), "in", "in"),
        (("cat", "known"), "in", "k"),
        (("cat", "/dev/stdin"), "in", "in"),
        (("head", "-n", "5"), "in", "in"),
        (("tee", "x"), "in", "in"),
        (("base64", "-d"), "aWQ=", "id"),
        (("base64", "-d", "-"), "aWQ", "id"),
        (("b64decode", "-r"), "aWQ=", "id"),
        (("openssl", "base64", "-d"), "aWQ=", "id"),
        (("xxd", "-r", "-p"), "6964", "id"),
        (("rev",), "di", "id"),
        (("tr", "a-z", "b-za"), "hc", "id"),
        (("tr", "x", "i"), "xd", "id"),
        (("which", "bash"), "", "/usr/bin/bash"),
        (("command", "-v", "bash"), "", "/usr/bin/bash"),
        (("pwd",), "", "/desk"),
        (("tr", "", ""), "id", ""),
        (("mktemp",), "", "/tmp/tmp.0"),  # noqa: S108 - a name
    ],
)
def test_known_text(words: tuple[str, ...], stdin: str, want: str) -> None:
    assert written(*words, stdin=Value(stdin)).text == want


@pytest.mark.parametrize(
    ("words", "taints"),
    [
        (("curl", "u"), {Taint.DOWNLOAD}),
        (("openssl", "s_client"), {Taint.DOWNLOAD}),
        (("env",), {Taint.ENVIRONMENT}),
        (("gunzip",), {Taint.DECODED}),
        (("base64", "-d"), {Taint.DECODED}),
        (("openssl", "enc", "-d"), {Taint.DECODED}),
        (("sed", "s/a/b/"), set()),
        (("grep", "x", "known"), set()),
        (("foo",), set()),
        (("openssl", "version"), set()),
        (("xxd",), set()),
        (("which",), set()),
        (("base64",), set()),
        (("cat", "unknown"), {Taint.EXTERNAL}),
        (("command", "x"), set()),
        (("tr", "-d", "x"), set()),
        (("tr", "", ""), set()),
        (("find", "."), set()),
    ],
)
def test_unknown_text_has_an_origin(words: tuple[str, ...], taints: set[Taint]) -> None:
    value = written(*words, stdin=Value("?", known=False))

    assert not value.known
    assert value.taints == taints


def test_input_shines_through() -> None:
    stdin = Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))

    assert Taint.DOWNLOAD in written("foo", stdin=stdin).taints
    assert Taint.DOWNLOAD in written("base64", "-d", stdin=stdin).taints


def test_decoding_what_is_not_encoded() -> None:
    assert decode_base64("!") is None
    assert decode_hex("zz") is None
    assert decode_base64("aQBkAA==") == "id"


@pytest.mark.parametrize(
    "text",
    [
        "echo x > a; sed -i '1c rm -rf /' a; sh a",
        "echo x > a; perl -pi -e 's{x}{rm -rf /}' a; sh a",
        "sort -o a <<< 'rm -rf /'; sh a",
        "xxd -r -p - a <<< 726d202d7266202f; sh a",
        "openssl base64 -d -A -out a <<< cm0gLXJmIC8=; sh a",
    ],
)
def test_a_file_that_a_program_changed_is_not_known(text: str) -> None:
    findings = check(Command(text=text, language=Language.SHELL), CommandConfig())

    assert {"block", "escalate"} & {finding.action.value for finding in findings}


def test_a_file_that_a_program_only_reads_stays_known() -> None:
    text = "echo ls > a; sed s/l/L/ a; sort a; sh a"
    findings = check(Command(text=text, language=Language.SHELL), CommandConfig())

    assert [finding for finding in findings if finding.action.value != "warn"] == []


@pytest.mark.parametrize(
    "text",
    [
        "mkfifo a; sh < a & echo 'rm -rf /' | sort > a",
        "mknod a p; cat a | bash & sort b > a",
        "exec 3> >(sh); sort a >&3",
        "exec > >(bash); sort a",
        "coproc sh; echo 'rm -rf /' >&${COPROC[1]}",
        "echo 'rm -rf /' > a; zip b.zip a; unzip -p b.zip | sh",
        "echo 'rm -rf /' > a; gzip -c a > b.gz; gunzip b.gz; sh b",
        "echo 'rm -rf /' > a; git add a; git commit -m a; git show HEAD:a | sh",
    ],
)
def test_a_channel_whose_text_is_not_known_is_a_question_for_a_shell(text: str) -> None:
    findings = check(Command(text=text, language=Language.SHELL), CommandConfig())

    assert {finding.evidence["rule"] for finding in findings} >= {"INPUT_UNKNOWN"}


@pytest.mark.parametrize(
    "text",
    [
        "mkdir a; echo '@' > a/b; mv a c; sh c/b",
        "mkdir a; echo '@' > a/b; cp -r a c; cd c; bash b",
        "mkdir a; echo '@' > a/b; chmod +x a/b; mv a c; c/b",
        "echo '@' > b; tar cf c.tar b; mkdir d; tar xf c.tar -C d; sh d/b",
        "ln -s /tmp/a c; echo '@' > /tmp/a/b; . c/b",
        "sh /proc/self/fd/3 3<<< '@'",
    ],
)
def test_a_file_is_followed_to_another_folder(text: str) -> None:
    held, passing = (
        check(Command(text=text.replace("@", code), language=Language.SHELL), CommandConfig())
        for code in ("rm -rf /", "make all")
    )

    assert "DELETE_ROOT" in {finding.evidence["rule"] for finding in held}
    assert {finding.action.value for finding in passing} <= {"warn"}


@pytest.mark.parametrize(
    "text",
    [
        "mkfifo a; cat a & echo b > a",
        "exec > >(tee -a build.log) 2>&1; make",
        "exec 3> build.log; make >&3",
        "coproc bc; echo 1+1 >&${COPROC[1]}",
        "tar czf a.tgz src; mkdir b; tar xzf a.tgz -C b; sh b/install.sh",
    ],
)
def test_channels_without_a_shell_behind_them_pass(text: str) -> None:
    assert list(check(Command(text=text, language=Language.SHELL), CommandConfig())) == []
