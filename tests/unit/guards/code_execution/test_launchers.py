"""Which part of a call is code, and in what language."""

import pytest

from demur.guards.code_execution.call import EMPTY, Arg, ProgramCall, Value
from demur.guards.code_execution.carriers import unwrap_command
from demur.guards.code_execution.launchers import find_code


def run(*words: str) -> list[tuple[str, str, str]]:
    args = tuple(Arg(word, 0, 0) for word in words[1:])
    found = find_code(ProgramCall(words[0], Arg(words[0], 0, 0), args))
    return [
        (
            code.language.value,
            code.text.text if code.text else "",
            code.file.text if code.file else "",
        )
        for code in found
    ]


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("ls",), []),
        (("sh",), [("shell", "", "")]),
        (("sh", "-"), [("shell", "", "")]),
        (("sh", "-s", "x"), [("shell", "", "")]),
        (("sh", "-c", "a"), [("shell", "a", "")]),
        (("sh", "-c"), []),
        (("bash", "-o", "pipefail", "-ec", "a"), [("shell", "a", "")]),
        (("bash", "--norc", "x.sh"), [("shell", "", "x.sh")]),
        (("bash", "--", "x.sh"), [("shell", "", "x.sh")]),
        (("bash", "--version"), []),
        (("source", "x"), [("shell", "", "x")]),
        ((".",), []),
        (("python3.11", "-c", "a"), [("python", "a", "")]),
        (("python", "-Bc", "a"), [("python", "a", "")]),
        (("python", "-W", "ignore", "-c", "a"), [("python", "a", "")]),
        (("python", "-Wignore", "x.py"), [("python", "", "x.py")]),
        (("python", "-m", "timeit", "-s", "a", "b"), [("python", "a", ""), ("python", "b", "")]),
        (("python", "--version"), []),
        (("perl", "-lane", "a"), [("other", "a", "")]),
        (("perl", "-0777e", "a", "-e", "b"), [("other", "a", ""), ("other", "b", "")]),
        (("perl", "-I.", "-Mx", "-e", "a"), [("other", "", "x.pm"), ("other", "a", "")]),
        (("perl", "-i.bak", "-pe", "a", "x.txt"), [("other", "a", "")]),
        (("perl",), [("other", "", "")]),
        (("python", "-ca"), [("python", "a", "")]),
        (("python", "x.py", "-c", "a"), [("python", "", "x.py")]),
        (("python",), [("python", "", "")]),
        (("python", "-m", "x"), [("python", "", "x.py"), ("python", "", "x/__main__.py")]),
        (("pyright", "-c"), []),
        (("perl", "-e", "a", "-e", "b"), [("other", "a", ""), ("other", "b", "")]),
        (("perl", "x.pl"), [("other", "", "x.pl")]),
        (("node", "-p", "a"), [("other", "a", "")]),
        (("awk", "-F", ":", "a", "f"), [("other", "a", "")]),
        (("awk",), []),
        (("awk", "-f", "x"), [("other", "", "x")]),
        (("pwsh", "-NoProfile", "-Command", "a"), [("powershell", "a", "")]),
        (("powershell", "-ExecutionPolicy", "Bypass", "-c", "a", "b"), [("powershell", "a b", "")]),
        (("powershell", "-enc", "a"), [("powershell", "a", "")]),
        (("powershell", "-ec", "a"), [("powershell", "a", "")]),
        (("powershell", "-File", "x.ps1"), [("powershell", "", "x.ps1")]),
        (("powershell", "a"), [("powershell", "a", "")]),
        (("powershell",), [("powershell", "", "")]),
        (("cmd", "/c", "a"), [("cmd", "a", "")]),
        (("cmd", "/q", "/c", "a", "b"), [("cmd", "a b", "")]),
        (("cmd", "/ca", "b"), [("cmd", "a b", "")]),
        (("cmd", "/c"), [("cmd", "", "")]),
        (("cmd",), []),
    ],
)
def test_code_is_found(words: tuple[str, ...], want: list[tuple[str, str, str]]) -> None:
    assert run(*words) == want


def started(*words: str, stdin: Value = EMPTY) -> list[tuple[list[str], bool]]:
    args = tuple(Arg(word, 0, 0) for word in words[1:])
    call = ProgramCall(words[0], Arg(words[0], 0, 0), args, stdin=stdin)
    return [([arg.text for arg in inner.args], inner.script) for inner in unwrap_command(call)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("ls a", []),
        ("sudo", []),
        ("sudo -u root A=b ls a", ["ls", "a"]),
        ("sudo -- ls", ["ls"]),
        ("doas -u x ls", ["ls"]),
        ("nohup ls", ["ls"]),
        ("timeout -s KILL 5 ls", ["ls"]),
        ("timeout 5 -- ls", ["ls"]),
        ("nice -n 5 ls", ["ls"]),
        ("env -i A=1 B=2 ls a", ["ls", "a"]),
        ("env -u A ls", ["ls"]),
        ("command -p ls", ["ls"]),
        ("chroot /mnt ls", ["ls"]),
        ("strace -o f ls", ["ls"]),
        ("busybox ls a", ["ls", "a"]),
        ("flock f ls", ["ls"]),
        ("screen -S n ls", ["ls"]),
        ("nsenter -t 1 -m ls", ["ls"]),
        ("docker run --rm -v a:b -e C=d img ls a", ["ls", "a"]),
        ("docker exec -it box ls", ["ls"]),
        ("docker compose exec web ls", ["ls"]),
        ("docker run img", []),
        ("docker ps", []),
        ("kubectl exec pod -- ls a", ["ls", "a"]),
        ("kubectl exec pod --", []),
        ("kubectl get pods", []),
        ("git bisect run ls a", ["ls", "a"]),
        ("git log", []),
        ("find . -exec ls {} ;", ["ls", "./*"]),
        ("find . -exec ls", ["ls"]),
        ("timeout -- 5 ls", ["ls"]),
        ("find . -name x -exec ls {} +", ["ls", "./x"]),
        ("trap - EXIT", []),
        ("trap", []),
        ("adb devices", []),
        ("vim a", []),
        ("su x", []),
        ("docker compose up", []),
        ("docker a b c d run", []),
    ],
)
def test_a_program_inside_another(text: str, want: list[str]) -> None:
    assert started(*text.split()) == ([(want, False)] if want else [])


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("eval", "a", "b"), ["a", "b"]),
        (("env", "-S", "a b"), ["a b"]),
        (("su", "-c", "a b"), ["a b"]),
        (("su", "x", "--command=a b"), ["a b"]),
        (("flock", "f", "-c", "a b"), ["a b"]),
        (("ssh", "-p", "22", "host", "a", "b"), ["a", "b"]),
        (("watch", "-n", "1", "a b"), ["a b"]),
        (("trap", "a b", "EXIT"), ["a b"]),
        (("adb", "shell", "a", "b"), ["a", "b"]),
        (("tar", "--to-command=a b", "x"), ["a b"]),
        (("vim", "-c", ":!a b"), ["a b"]),
        (("git", "submodule", "foreach", "--recursive", "a b"), ["a b"]),
        (("git", "rebase", "--exec", "a b", "x"), ["a b"]),
        (("git", "-c", "alias.x=!a b", "x"), ["a b"]),
    ],
)
def test_a_text_for_a_shell(words: tuple[str, ...], want: list[str]) -> None:
    assert started(*words)[0] == (want, True)


def test_xargs_appends_what_it_reads() -> None:
    assert started("xargs", "-n", "1", "rm", "-f", stdin=Value("a b")) == [
        (["rm", "-f", "a", "b"], False)
    ]
    assert started("xargs", "-I", "{}", "cp", "{}", "d", stdin=Value("a\nb")) == [
        (["cp", "a", "d"], False),
        (["cp", "b", "d"], False),
    ]
    assert started("xargs", "rm") == [(["rm", "$input"], False)]


def test_each_folder_that_is_searched_counts() -> None:
    assert started("find", "a", "b", "-exec", "rm", "{}", ";") == [
        (["rm", "a/*"], False),
        (["rm", "b/*"], False),
    ]
