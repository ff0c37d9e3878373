"""Rights, startup jobs, services, repositories, databases, archives."""

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
        ("chmod ug+s d", "SETUID"),
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
def test_commands_that_change_privileges_are_found(text: str, want: str) -> None:
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
def test_harmless_rights_pass(text: str) -> None:
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
def test_commands_that_change_services_jobs_or_defences_are_found(text: str, want: str) -> None:
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
def test_harmless_startup_passes(text: str) -> None:
    assert rules(text) == []


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("git -C x push -f origin release/1", "GIT_FORCE_PUSH"),
        ("git push origin +main", "GIT_FORCE_PUSH"),
        ("git push origin HEAD:refs/heads/main --force", "GIT_FORCE_PUSH"),
        ("git push --mirror backup", "GIT_FORCE_PUSH"),
        ("git push origin :main", "GIT_FORCE_PUSH"),
        ("git push --delete origin topic", "GIT_REWRITE"),
        ("git push -f", "GIT_REWRITE"),
        ("git checkout -- .", "GIT_REWRITE"),
        ("git stash clear", "GIT_REWRITE"),
        ("mysql -e 'drop table users'", "DROP_DATABASE"),
        ("echo 'TRUNCATE TABLE x' | psql", "DROP_DATABASE"),
        ("psql -c 'delete from users;'", "DROP_DATABASE"),
        ("redis-cli FLUSHALL", "DROP_DATABASE"),
        ("7z a -psecret x.7z /srv/data", "ENCRYPT_IN_PLACE"),
        ("zip -r x.zip /srv/data", "DATA_STAGED"),
        ("cp /usr/bin/python3 helper", "PROXY_EXECUTION"),
    ],
)
def test_destructive_commands_are_found(text: str, want: str) -> None:
    assert want in rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "git",
        "git --version",
        "git push",
        "git push origin topic",
        "git clean -f",
        "git clean -fdxn",
        "git checkout main",
        "psql -c 'delete from users where id = 3'",
        "zip -er x.zip docs",
        "openssl x509 -in /srv/ca.crt",
        "cp /bin/sh /srv/jail/bin/sh",
        "cp a b c",
    ],
)
def test_harmless_data_programs_pass(text: str) -> None:
    assert [rule for rule in rules(text) if rule != "WRITE_OUTSIDE"] == []
