"""What an effect amounts to, given where its target lies."""

import pytest

from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.consequences import rules_for_effect
from demur.guards.code_execution.effects import FileEffect, EffectKind
from demur.guards.code_execution.places import workspace_bounds
from demur.guards.code_execution.value import CommandArg

BOUNDS = workspace_bounds(CommandConfig(workspace=("/desk",)), "/desk")


def met(kind: EffectKind, text: str, *, tree: bool = False, adds: bool = False) -> list[str]:
    effect = FileEffect(kind, CommandArg(text, 0, 0), tree=tree, adds=adds)
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
        ("/~", False, ["DELETE_HOME"]),
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


def test_wiping() -> None:
    assert met(EffectKind.WIPE, "x") == ["SHRED"]
    assert met(EffectKind.WIPE, "/srv/x") == ["DELETE_OUTSIDE"]
    assert met(EffectKind.WIPE, "/dev/sda") == ["OVERWRITE_DEVICE"]


def test_reading() -> None:
    assert met(EffectKind.READ, "x") == []
    assert met(EffectKind.READ, "/etc/shadow") == ["SECRET_READ"]
