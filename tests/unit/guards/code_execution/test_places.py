"""Where paths lead, on Unix and on Windows."""

import pytest

from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.places import (
    PathKind,
    workspace_bounds,
    canonical_path,
    classify_path,
    start_folder,
)

BOUNDS = workspace_bounds(CommandConfig(workspace=("/desk/app",)), "/desk/app")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x", PathKind.INSIDE),
        ("./x/y", PathKind.INSIDE),
        (".", PathKind.WORKSPACE_ITSELF),
        ("*", PathKind.WORKSPACE_ITSELF),
        (".*", PathKind.WORKSPACE_ITSELF),
        ("build/*", PathKind.INSIDE),
        ("..", PathKind.OUTSIDE),
        ("../other", PathKind.OUTSIDE),
        ("/desk/app/x", PathKind.INSIDE),
        ("/desk/apple", PathKind.OUTSIDE),
        ("/", PathKind.ROOT),
        ("/*", PathKind.ROOT),
        ("//", PathKind.ROOT),
        ("/usr", PathKind.SYSTEM),
        ("/etc/passwd", PathKind.SYSTEM),
        ("/u*/x", PathKind.SYSTEM),
        ("/home", PathKind.SYSTEM),
        ("/home/ann", PathKind.HOME_ITSELF),
        ("/home/ann/*", PathKind.HOME_ITSELF),
        ("/root/x", PathKind.HOME),
        ("/~", PathKind.HOME_ITSELF),
        ("/~/x", PathKind.HOME),
        ("/~x", PathKind.OUTSIDE),
        ("/Users/ann/x", PathKind.HOME),
        ("/srv/x", PathKind.OUTSIDE),
        ("/var/tmp", PathKind.SCRATCH),  # noqa: S108 - a name
        ("/dev/shm/x", PathKind.SCRATCH),  # noqa: S108 - a name
        ("/dev/sda", PathKind.DEVICE),
        ("/dev/nvme0n1", PathKind.DEVICE),
        ("/dev/null", PathKind.STREAM),
        ("/dev/foo", PathKind.SYSTEM),
        ("$X/y", PathKind.UNKNOWN),
        ("C:\\", PathKind.ROOT),
        ("c:\\Windows\\System32", PathKind.SYSTEM),
        ("C:\\Users\\ann\\x", PathKind.HOME),
        ("C:\\Users\\Public\\x", PathKind.SYSTEM),
        ("%TEMP%\\x", PathKind.SCRATCH),
        ("$env:TEMP\\x", PathKind.SCRATCH),
        ("%USERPROFILE%", PathKind.HOME_ITSELF),
        ("${env:AppData}\\x", PathKind.HOME),
        ("%SystemRoot%\\x", PathKind.SYSTEM),
        ("%FOO%\\x", PathKind.OUTSIDE),
        ("\\\\.\\PhysicalDrive0", PathKind.DEVICE),
        ("\\\\host\\share", PathKind.OUTSIDE),
        (".\\x", PathKind.INSIDE),
    ],
)
def test_a_path_leads_to_a_place(text: str, want: PathKind) -> None:
    assert classify_path(text, "/desk/app", BOUNDS) is want


def test_without_bounds_relative_paths_are_inside() -> None:
    bounds = workspace_bounds(CommandConfig(), None)
    start = start_folder(bounds, None)

    assert classify_path("x", start, bounds) is PathKind.INSIDE
    assert classify_path(".", start, bounds) is PathKind.WORKSPACE_ITSELF
    assert classify_path("..", start, bounds) is PathKind.ROOT


def test_commands_start_in_their_own_folder() -> None:
    bounds = workspace_bounds(CommandConfig(workspace=("/a",)), "/b")

    assert start_folder(bounds, "/b") == "/b"


def test_a_long_path_is_put_in_form_all_the_same() -> None:
    assert canonical_path("a/../" * 200 + "b", "/x") == "/x/b"
