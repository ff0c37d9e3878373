"""Disks, power, defences, logs, credentials: a row of each kind with its twin."""

import pytest

from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check


def rules(text: str) -> list[str]:
    event = Command(text=text, language=Language.SHELL)
    return [finding.evidence["rule"] for finding in check(event, CommandConfig())]


@pytest.mark.parametrize(
    ("text", "twin", "want"),
    [
        ("mkfs.xfs /dev/sdb", "mkfs.xfs disk.img", "OVERWRITE_DEVICE"),
        ("wipefs -a /dev/sdb", "wipefs --help", "OVERWRITE_DEVICE"),
        ("cryptsetup luksFormat /dev/sdb", "cryptsetup status x", "OVERWRITE_DEVICE"),
        ("zfs destroy -r tank/x", "zfs list", "DELETE_BACKUPS"),
        ("init 0", "init 3", "SHUT_DOWN"),
        ("iptables --flush", "iptables -L", "DEFENCE_WEAKENED"),
        ("ufw disable", "ufw enable", "DEFENCE_WEAKENED"),
        ("auditctl -e 0", "auditctl -l", "DEFENCE_OFF"),
        ("csrutil disable", "csrutil authenticated-root", "DEFENCE_OFF"),
        ("history -c", "history 5", "DELETE_LOGS"),
        ("unset HISTFILE", "unset FOO", "DELETE_LOGS"),
        ("set +o history", "set -o pipefail", "DELETE_LOGS"),
        ("security dump-keychain", "security cms -D", "CREDENTIAL_DUMP"),
        ("getent shadow", "getent hosts x", "SECRET_READ"),
        ("chattr +i x", "lsattr x", "HIDDEN_FILE"),
    ],
)
def test_a_verb_and_its_twin(text: str, twin: str, want: str) -> None:
    assert want in rules(text)
    assert want not in rules(twin)
