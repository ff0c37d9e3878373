import pytest

from demur.guards.tool_call.path import outside_reason

WORKSPACE = ["/srv/project", "/tmp/scratch"]  # noqa: S108 - only a name


@pytest.mark.parametrize(
    "path",
    [
        "",
        "src/main.py",
        "./a/../b",
        "/srv/project",
        "/srv/project/x",
        "/tmp/scratch/y",  # noqa: S108 - only a name
        "file:///srv/project/x",
        "docs\\a.md",
        "a%20b",
        "https://example.com/etc/passwd",
    ],
)
def test_a_path_inside_stays(path: str) -> None:
    assert outside_reason(path, WORKSPACE) is None


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../other",
        "a/../../b",
        "a\\..\\..\\b",
        "%2e%2e/x",
        "..%2fx",
        "/etc/passwd",
        "/srv/projects",
        "/srv/project/../x",
        "//host/share",
        "\\\\host\\share",
        "C:\\Windows",
        "~/x",
        "~root",
        "$HOME/x",
        "${HOME}",
        "%USERPROFILE%\\x",
        "file:///etc/passwd",
        "file:/etc/passwd",
        "a\0b",
        "a%00b",
    ],
)
def test_a_path_outside_leaves(path: str) -> None:
    assert outside_reason(path, WORKSPACE)


def test_a_drive_is_compared_without_case() -> None:
    assert outside_reason("c:\\Proj\\a", ["C:\\proj"]) is None
    assert outside_reason("c:\\proj\\..\\a", ["C:\\proj"])


def test_the_root_holds_everything() -> None:
    assert outside_reason("/etc/passwd", ["/"]) is None
