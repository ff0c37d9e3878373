"""Where paths lead, on Unix and on Windows."""

import pytest

from demur.guards.code_execution.event import CommandConfig
from demur.guards.code_execution.paths import (
    PathKind,
    canonical_path,
    classify_path,
    delete_rule,
    is_system_critical,
    read_rule,
    start_folder,
    workspace_bounds,
    write_rule,
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


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/etc/shadow", "SECRET_READ"),
        ("/~/.ssh/id_rsa", "SECRET_READ"),
        ("/~/.ssh/id_rsa.pub", ""),
        ("/~/.ssh/known_hosts", ""),
        ("/~/.aws/credentials", "SECRET_READ"),
        ("/~/.config/gcloud/x.db", "SECRET_READ"),
        ("/proc/1/environ", "SECRET_READ"),
        ("/~/Library/Keychains/login.keychain-db", "SECRET_READ"),
        ("/~/appdata/local/google/chrome/user data/default/login data", "SECRET_READ"),
        ("/windows/system32/config/sam", "SECRET_READ"),
        ("/desk/.env", "SECRET_READ"),
        ("/desk/.env.test", "SECRET_NEAR"),
        ("/~/.aws/config", ""),
        ("/~/.npmrc", "SECRET_READ"),
        ("/desk/.npmrc", "SECRET_NEAR"),
        ("/desk/.env.example", ""),
        ("/desk/tls.key", "SECRET_NEAR"),
        ("/etc/passwd", "SECRET_NEAR"),
        ("/desk/notes.txt", ""),
    ],
)
def test_reading(path: str, want: str) -> None:
    assert read_rule(path) == want


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/etc/ld.so.preload", "LINKER_PRELOAD"),
        ("/~/.ssh/authorized_keys", "AUTHORIZED_KEYS"),
        ("/etc/sudoers.d/x", "SUDOERS"),
        ("/etc/passwd", "ACCOUNT_FILES"),
        ("/etc/cron.d/x", "STARTUP_FILE"),
        ("/~/.zshrc", "STARTUP_FILE"),
        ("/~/.config/autostart/x.desktop", "STARTUP_FILE"),
        ("/desk/.git/hooks/pre-commit", "STARTUP_FILE"),
        ("/proc/sysrq-trigger", "SHUT_DOWN"),
        ("/etc/selinux/config", "DEFENCE_WEAKENED"),
        ("/desk/x", ""),
        ("/desk/bashrc.txt", ""),
    ],
)
def test_writing(path: str, want: str) -> None:
    assert write_rule(path) == want


def test_deleting() -> None:
    assert delete_rule("/var/log/syslog") == "DELETE_LOGS"
    assert delete_rule("/~/.bash_history") == "DELETE_LOGS"
    assert delete_rule("/desk/x.log") == ""


def test_paths_the_system_needs_are_critical() -> None:
    assert is_system_critical("/bin/ls")
    assert not is_system_critical("/srv/bin/ls")
