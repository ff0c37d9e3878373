"""Rights: roots, groups, modes, accounts, containers."""

import pytest

from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check


def rules(text: str) -> list[str]:
    event = Command(text=text, language=Language.SHELL)
    return [finding.evidence["rule"] for finding in check(event, CommandConfig())]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("sudo -s", "ROOT_SHELL"),
        ("sudo -l", "HOST_FACTS"),
        ("sudo bash", "ROOT_SHELL"),
        ("sudo bash x.sh", "SUDO"),
        ("sudo -u postgres psql", "SUDO"),
        ("su", "ROOT_SHELL"),
        ("su - ann", "ROOT_SHELL"),
        ("su ann -c ls", "SUDO"),
        ("doas sh", "ROOT_SHELL"),
        ("chmod g+s d", "SETUID"),
        ("chmod a+rw /etc", "WORLD_WRITABLE"),
        ("chmod 4755", "SETUID"),
        ("chown -R me /", "OWNERSHIP"),
        ("useradd -ou 0 x", "ADMIN_GROUP"),
        ("useradd -G sudo x", "ADMIN_GROUP"),
        ("adduser x sudo", "ADMIN_GROUP"),
        ("usermod -L x", "ACCOUNT_CHANGE"),
        ("usermod -p x y", "ACCOUNT_CREATE"),
        ("usermod -aG wheel x", "ADMIN_GROUP"),
        ("docker run --privileged --pid=host alpine nsenter -t 1", "CONTAINER_ESCAPE"),
        ("docker run -v /var/run/docker.sock:/s alpine", "CONTAINER_ESCAPE"),
        ("docker run --cap-add=ALL alpine", "CONTAINER_PRIVILEGED"),
        ("passwd -l x", "ACCOUNT_CHANGE"),
        ("visudo", "SUDOERS"),
    ],
)
def test_rights_are_seen(text: str, want: str) -> None:
    assert want in rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "sudo",
        "sudo -k",
        "su --version",
        "su -V",
        "chmod 755 x",
        "chmod +x x",
        "chmod 777 out",
        "chown me x",
        "useradd -D",
        "usermod",
        "docker images",
        "docker run alpine",
        "visudo -c",
    ],
)
def test_harmless_twins_pass(text: str) -> None:
    assert rules(text) == []


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("crontab jobs.txt", "STARTUP_JOB"),
        ("crontab < jobs.txt", "STARTUP_JOB"),
        ("crontab -r", "STOP_SERVICE"),
        ("echo ls | at now", "STARTUP_JOB"),
        ("at -f x now", "STARTUP_JOB"),
        ("systemctl disable --now falco", "DEFENCE_OFF"),
        ("systemctl enable x", "SERVICE_ENABLE"),
        ("systemctl reboot", "SHUT_DOWN"),
        ("service auditd stop", "DEFENCE_OFF"),
        ("service nginx stop", "STOP_SERVICE"),
        ("pkill -f falco", "DEFENCE_OFF"),
        ("kill -9 -1", "SHUT_DOWN"),
        ("kill 1", "SHUT_DOWN"),
        ("kill 42", "STOP_SERVICE"),
        ("HISTSIZE=0 ls", "DELETE_LOGS"),
        ("env LD_PRELOAD=x ls", "LIBRARY_INJECTION"),
        ("launchctl load x.plist", "STARTUP_JOB"),
    ],
)
def test_what_runs_later_is_seen(text: str, want: str) -> None:
    assert want in rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "crontab -l",
        "crontab -e",
        "crontab",
        "at -l",
        "at now",
        "systemctl",
        "systemctl restart x",
        "systemctl reboot --when cancel",
        "service nginx restart",
        "kill -l",
        "kill",
        "HISTSIZE=500 ls",
        "export A=b",
    ],
)
def test_harmless_twins_pass_startup(text: str) -> None:
    assert rules(text) == []
