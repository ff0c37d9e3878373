"""The effects of programs on files, by their arguments."""

import pytest

from demur.guards.code_execution.call import Arg, ProgramCall
from demur.guards.code_execution.effects import (
    EffectKind,
    FileEffect,
    find_effects,
    rules_for_effect,
)
from demur.guards.code_execution.event import CommandConfig
from demur.guards.code_execution.paths import workspace_bounds


def done(text: str, *via: str) -> list[str]:
    verb, *rest = text.split()
    args = tuple(Arg(word, 0, 0) for word in rest)
    call = ProgramCall(verb, Arg(verb, 0, 0), args, via=via)
    return [
        " ".join(filter(None, (e.kind.value, e.target.text, "tree" * e.tree, "adds" * e.append)))
        for e in find_effects(call)
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("rm a b", ["delete a", "delete b"]),
        ("rm -rf a", ["delete a tree"]),
        ("cp a b", ["read a", "write b adds"]),
        ("cp a b c/", ["read a", "read b", "write c/ adds"]),
        ("cp x/a b/", ["read x/a", "write b/a adds"]),
        ("cp -t d a b", ["read a", "read b", "write d adds"]),
        ("cp /dev/null a", ["read /dev/null", "write a"]),
        ("touch -r x a", ["write a adds"]),
        ("cp a", []),
        ("mv a b", ["read a", "alter a tree", "write b adds"]),
        ("mv a /dev/null", ["read a", "delete a tree", "write /dev/null adds"]),
        ("mv -t d a", ["read a", "alter a tree", "write d adds"]),
        ("chmod -x a", ["alter a"]),
        ("ln -s a b", ["write b adds"]),
        ("tee a", ["write a"]),
        ("tee -a a", ["write a adds"]),
        ("dd if=a of=b bs=1", ["read a", "write b"]),
        ("dd if=/dev/zero of=/srv/x", ["read /dev/zero", "wipe /srv/x"]),
        ("dd if=/dev/zero of=disk.img", ["read /dev/zero", "write disk.img"]),
        ("sed s/a/b/ f", ["read f adds"]),
        ("sed -i s/a/b/ f", ["write f adds"]),
        ("sed -e s/a/b/ f", ["read f adds"]),
        ("grep a f", ["read f"]),
        ("grep -e a f", ["read f"]),
        ("tar czf x.tgz a b", ["read a", "read b"]),
        ("tar -cf x.tar --remove-files a", ["read a", "delete a tree"]),
        ("tar -xf x.tgz -C d", ["write d adds"]),
        ("tar -tf x.tgz", []),
        ("unzip x.zip -d d", ["read x.zip", "write d adds"]),
        ("unzip x.zip", ["read x.zip"]),
        ("wget -P d http://x.example/a", ["write d adds"]),
        (
            "curl --output-dir d -o a http://x.example/a",
            ["write d adds", "write a", "write d/a"],
        ),
        ("aria2c -d d http://x.example/a", ["write d adds"]),
        ("git clone --depth 1 http://x.example/a d", ["write d adds"]),
        ("git clone --upload-pack x http://x.example/a d", ["write d adds"]),
        ("git clone --separate-git-dir g http://x.example/a d", ["write d adds", "write g adds"]),
        ("git -C a init d", ["write a/d adds"]),
        ("git -C a -c k=v -C ../b init", ["write b adds"]),
        ("git -C a init /d", ["write /d adds"]),
        ("git -C", []),
        ("git init", ["write . adds"]),
        ("git worktree add d", ["write d adds"]),
        ("git clone http://x.example/a", ["write a adds"]),
        ("git clone host:b/a.git/", ["write a adds"]),
        ("git clone ../a/.git", ["write a adds"]),
        ("git -C d clone host:a.bundle", ["write d/a adds"]),
        ("git clone", []),
        ("git -C d commit -C a b c", []),
        ("git status d", []),
        ("git", []),
        ("mount --bind a d", ["alter d"]),
        ("mount -t tmpfs none d", ["alter d"]),
        ("mkfifo -m 600 d", ["alter d"]),
        ("dd of=~/x if=a", ["write /~/x", "read a"]),
        ("zip x.zip a b", ["read a", "read b"]),
        ("7z a x.7z a", ["read a"]),
        ("7z", []),
        ("ditto a b", ["read a"]),
        ("scp a h:b", ["read a"]),
        ("scp h:a b", ["write b adds"]),
        ("rsync -a --delete a/ b/", ["read a/", "write b/ adds", "delete b/ tree"]),
        ("rsync -an --delete a/ b/", ["read a/", "write b/ adds"]),
        ("curl -o a -T b u", ["write a", "read b"]),
        ("curl -o - u", []),
        ("curl --output-dir d -o - u", ["write d adds"]),
        ("curl -H x u", []),
        ("wget -O a u", ["write a"]),
        ("openssl enc -in a -out b", ["read a", "write b"]),
        ("find . -delete", ["delete ./* tree"]),
        ("find a b -type f -delete", ["delete a/* tree", "delete b/* tree"]),
        ("find -delete", ["delete ./* tree"]),
        ("shred -n 3 a", ["wipe a"]),
        ("truncate -s 0 a", ["write a"]),
        ("sqlite3 a", ["read a"]),
        ("sqlite3", []),
        ("gpg -o b a", ["read a"]),
        ("vim a", ["read a adds"]),
        ("del /s /q a", ["delete a tree"]),
        ("rmdir a", []),
        ("rmdir /s a", ["delete a tree"]),
        ("copy /y a b", ["read a", "write b adds"]),
        ("copy c:\\a d\\", ["read c:\\a", "write d\\a adds"]),
        ("ls a", []),
    ],
)
def test_a_program_touches_files(text: str, want: list[str]) -> None:
    assert done(text) == want


def test_an_editor_behind_sudo_writes() -> None:
    assert done("vim /etc/hosts", "sudo") == ["write /etc/hosts adds"]


BOUNDS = workspace_bounds(CommandConfig(workspace=("/desk",)), "/desk")


def met(kind: EffectKind, text: str, *, tree: bool = False, adds: bool = False) -> list[str]:
    effect = FileEffect(kind, Arg(text, 0, 0), tree=tree, append=adds)
    return [sight.rule for sight in rules_for_effect(effect, "/desk", BOUNDS)]


@pytest.mark.parametrize(
    ("text", "tree", "want"),
    [
        ("x", True, []),
        ("x", False, []),
        ("/var/tmp/x", True, []),  # noqa: S108 - a name
        ("/dev/null", False, []),
        ("$X", True, []),
        ("$X/", True, ["DELETE_UNKNOWN"]),
        ("$X/y", True, []),
        ("$X/y", False, []),
        ("/", False, ["DELETE_ROOT"]),
        ("/srv/*", False, ["DELETE_OUTSIDE"]),
        ("/dev/sda", False, ["DELETE_SYSTEM"]),
        ("/boot/x", False, ["DELETE_SYSTEM"]),
        ("/opt/x", False, ["DELETE_FILE_OUTSIDE"]),
        ("/~", False, ["DELETE_WHOLE_HOME"]),
        ("/~/*", False, ["DELETE_WHOLE_HOME"]),
        ("/~/docs", True, ["DELETE_HOME"]),
        ("/home/ann", True, ["DELETE_WHOLE_HOME"]),
        ("/home", True, ["DELETE_WHOLE_HOME"]),
        ("/home", False, ["DELETE_FILE_OUTSIDE"]),
        ("C:\\Users\\*", True, ["DELETE_WHOLE_HOME"]),
        ("/var/log/x", True, ["DELETE_LOGS"]),
        ("sub/.git", True, ["DELETE_WORKSPACE"]),
        (".", True, ["DELETE_WORKSPACE"]),
        (".", False, []),
    ],
)
def test_deleting(text: str, tree: bool, want: list[str]) -> None:
    assert met(EffectKind.DELETE, text, tree=tree) == want


@pytest.mark.parametrize(
    ("text", "adds", "want"),
    [
        ("x", False, []),
        ("/var/tmp/x", False, []),  # noqa: S108 - a name
        ("$X/y", False, []),
        ("/dev/sda", False, ["OVERWRITE_DEVICE"]),
        ("/dev/null", False, []),
        ("/srv/x", False, ["WRITE_OUTSIDE"]),
        ("/etc/passwd", False, ["OVERWRITE_SYSTEM"]),
        ("/etc/passwd", True, ["ACCOUNT_FILES"]),
        ("/bin/ls", False, ["OVERWRITE_SYSTEM"]),
        ("/bin/ls", True, ["WRITE_SYSTEM"]),
        ("/var/log/x", False, ["DELETE_LOGS"]),
        ("/var/log/x", True, ["WRITE_OUTSIDE"]),
        (".git/hooks/pre-push", False, ["STARTUP_FILE"]),
    ],
)
def test_writing(text: str, adds: bool, want: list[str]) -> None:
    assert met(EffectKind.WRITE, text, adds=adds) == want


@pytest.mark.parametrize(
    ("workspace", "text", "want"),
    [
        ("/home/ann", ".", "DELETE_WHOLE_HOME"),
        ("/home/ann", "*", "DELETE_WHOLE_HOME"),
        ("/home/ann", "/~", "DELETE_WHOLE_HOME"),
        ("/", "*", "DELETE_ROOT"),
        ("/home/ann/app", "*", "DELETE_WORKSPACE"),
    ],
)
def test_a_workspace_that_is_a_home_or_the_root_is_not_deleted_whole(
    workspace: str, text: str, want: str
) -> None:
    bounds = workspace_bounds(CommandConfig(workspace=(workspace,)), workspace)
    effect = FileEffect(EffectKind.DELETE, Arg(text, 0, 0), tree=True)

    assert [hit.rule for hit in rules_for_effect(effect, workspace, bounds)] == [want]


def test_wiping() -> None:
    assert met(EffectKind.WIPE, "x") == ["SHRED"]
    assert met(EffectKind.WIPE, "/srv/x") == ["DELETE_OUTSIDE"]
    assert met(EffectKind.WIPE, "/dev/sda") == ["OVERWRITE_DEVICE"]


def test_reading() -> None:
    assert met(EffectKind.READ, "x") == []
    assert met(EffectKind.READ, "/etc/shadow") == ["SECRET_READ"]
