"""What an effect amounts to, given where its target lies."""

import pytest

from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.consequences import consequences
from demur.guards.code_execution.effects import Effect, Kind
from demur.guards.code_execution.places import bounds_of
from demur.guards.code_execution.value import Arg

BOUNDS = bounds_of(CommandConfig(workspace=("/desk",)), "/desk")


def met(kind: Kind, text: str, *, tree: bool = False, adds: bool = False) -> list[str]:
    effect = Effect(kind, Arg(text, 0, 0), tree=tree, adds=adds)
    return [sight.rule for sight in consequences(effect, "/desk", BOUNDS)]


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
        ("/~", False, ["DELETE_HOME"]),
        ("/var/log/x", True, ["DELETE_LOGS"]),
        ("sub/.git", True, ["DELETE_WORKSPACE"]),
        (".", True, ["DELETE_WORKSPACE"]),
        (".", False, []),
    ],
)
def test_deleting(text: str, tree: bool, want: list[str]) -> None:
    assert met(Kind.DELETE, text, tree=tree) == want


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
    assert met(Kind.WRITE, text, adds=adds) == want


def test_wiping() -> None:
    assert met(Kind.WIPE, "x") == ["SHRED"]
    assert met(Kind.WIPE, "/srv/x") == ["DELETE_OUTSIDE"]
    assert met(Kind.WIPE, "/dev/sda") == ["OVERWRITE_DEVICE"]


def test_reading() -> None:
    assert met(Kind.READ, "x") == []
    assert met(Kind.READ, "/etc/shadow") == ["SECRET_READ"]
