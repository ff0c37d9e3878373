"""What programs do to files, by their arguments."""

import pytest

from demur.guards.code_execution.call import ProgramCall
from demur.guards.code_execution.effects import find_effects
from demur.guards.code_execution.value import CommandArg


def done(text: str, *via: str) -> list[str]:
    verb, *rest = text.split()
    args = tuple(CommandArg(word, 0, 0) for word in rest)
    call = ProgramCall(verb, CommandArg(verb, 0, 0), args, via=via)
    return [
        " ".join(filter(None, (e.kind.value, e.target.text, "tree" * e.tree, "adds" * e.adds)))
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
        ("mv a b", ["read a", "write b adds"]),
        ("mv a /dev/null", ["read a", "delete a tree", "write /dev/null adds"]),
        ("mv -t d a", ["read a", "write d adds"]),
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
        ("tar -xf x.tgz -C d", ["write d adds"]),
        ("tar -tf x.tgz", []),
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
        ("curl -H x u", []),
        ("wget -O a u", ["write a"]),
        ("openssl enc -in a -out b", ["read a", "write b"]),
        ("find . -delete", ["delete ./* tree"]),
        ("find a b -type f -delete", ["delete a/*.*? tree", "delete b/*.*? tree"]),
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
