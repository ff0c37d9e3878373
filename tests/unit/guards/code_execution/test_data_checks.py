"""Repositories, databases, archives, disguises."""

import pytest

from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check


def rules(text: str) -> list[str]:
    event = Command(text=text, language=Language.SHELL)
    return [finding.evidence["rule"] for finding in check(event, CommandConfig())]


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
def test_losses_are_seen(text: str, want: str) -> None:
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
def test_harmless_twins_pass(text: str) -> None:
    assert [rule for rule in rules(text) if rule != "WRITE_OUTSIDE"] == []
