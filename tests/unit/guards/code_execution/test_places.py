"""Where paths lead, on Unix and on Windows."""

import pytest

from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.places import Place, bounds_of, canonical, place, start_of

BOUNDS = bounds_of(CommandConfig(workspace=("/desk/app",)), "/desk/app")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x", Place.INSIDE),
        ("./x/y", Place.INSIDE),
        (".", Place.WORKSPACE_ITSELF),
        ("*", Place.WORKSPACE_ITSELF),
        (".*", Place.WORKSPACE_ITSELF),
        ("build/*", Place.INSIDE),
        ("..", Place.OUTSIDE),
        ("../other", Place.OUTSIDE),
        ("/desk/app/x", Place.INSIDE),
        ("/desk/apple", Place.OUTSIDE),
        ("/", Place.ROOT),
        ("/*", Place.ROOT),
        ("//", Place.ROOT),
        ("/usr", Place.SYSTEM),
        ("/etc/passwd", Place.SYSTEM),
        ("/u*/x", Place.SYSTEM),
        ("/home", Place.SYSTEM),
        ("/home/ann", Place.HOME_ITSELF),
        ("/home/ann/*", Place.HOME_ITSELF),
        ("/root/x", Place.HOME),
        ("/~", Place.HOME_ITSELF),
        ("/~/x", Place.HOME),
        ("/~x", Place.OUTSIDE),
        ("/Users/ann/x", Place.HOME),
        ("/srv/x", Place.OUTSIDE),
        ("/var/tmp", Place.SCRATCH),  # noqa: S108 - a name
        ("/dev/shm/x", Place.SCRATCH),  # noqa: S108 - a name
        ("/dev/sda", Place.DEVICE),
        ("/dev/nvme0n1", Place.DEVICE),
        ("/dev/null", Place.STREAM),
        ("/dev/foo", Place.SYSTEM),
        ("$X/y", Place.UNKNOWN),
        ("C:\\", Place.ROOT),
        ("c:\\Windows\\System32", Place.SYSTEM),
        ("C:\\Users\\ann\\x", Place.HOME),
        ("C:\\Users\\Public\\x", Place.SYSTEM),
        ("%TEMP%\\x", Place.SCRATCH),
        ("$env:TEMP\\x", Place.SCRATCH),
        ("%USERPROFILE%", Place.HOME_ITSELF),
        ("${env:AppData}\\x", Place.HOME),
        ("%SystemRoot%\\x", Place.SYSTEM),
        ("%FOO%\\x", Place.OUTSIDE),
        ("\\\\.\\PhysicalDrive0", Place.DEVICE),
        ("\\\\host\\share", Place.OUTSIDE),
        (".\\x", Place.INSIDE),
    ],
)
def test_a_path_leads_to_a_place(text: str, want: Place) -> None:
    assert place(text, "/desk/app", BOUNDS) is want


def test_without_bounds_relative_paths_are_inside() -> None:
    bounds = bounds_of(CommandConfig(), None)
    start = start_of(bounds, None)

    assert place("x", start, bounds) is Place.INSIDE
    assert place(".", start, bounds) is Place.WORKSPACE_ITSELF
    assert place("..", start, bounds) is Place.ROOT


def test_commands_start_in_their_own_folder() -> None:
    bounds = bounds_of(CommandConfig(workspace=("/a",)), "/b")

    assert start_of(bounds, "/b") == "/b"


def test_a_long_path_is_put_in_form_all_the_same() -> None:
    assert canonical("a/../" * 200 + "b", "/x") == "/x/b"
