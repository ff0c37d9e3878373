"""Files that matter by name."""

import pytest

from demur.guards.code_execution.files import is_system_critical, read_rule, delete_rule, write_rule


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
        ("/desk/.env", "SECRET_NEAR"),
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


def test_what_the_system_needs() -> None:
    assert is_system_critical("/bin/ls")
    assert not is_system_critical("/srv/bin/ls")
