"""Jobs, services, processes, and variables that make things run."""

import pytest

from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.event import Command, Language
from demur.guards.code_execution.guard import check


def rules(text: str) -> list[str]:
    event = Command(text=text, language=Language.SHELL)
    return [finding.evidence["rule"] for finding in check(event, CommandConfig())]


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
def test_harmless_twins_pass(text: str) -> None:
    assert rules(text) == []
