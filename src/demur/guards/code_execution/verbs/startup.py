"""Programs that make something run later: jobs, services, agents, hooks, injected libraries."""

import re
from collections.abc import Iterator

from demur.guards.code_execution.call import Call, Sight, options
from demur.guards.code_execution.names import names
from demur.guards.code_execution.verbs.around import Around, Judge, Rows

__all__ = ["JUDGES", "ROWS", "injected"]

_SURE = frozenset({"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "PROMPT_COMMAND"})


_FORGETS = re.compile(
    r"HISTFILE=(?:/dev/null)?|HIST(?:FILE)?SIZE=0|HISTCONTROL=ignore\w+|HISTIGNORE=.*\*.*"
)


def injected(call: Call) -> Iterator[Sight]:
    """Yield a hit for a variable that makes other programs load or run something."""
    for name, value in call.environment:
        if name in _SURE:
            yield Sight("LIBRARY_INJECTION", name)
        elif name.startswith("HIST") and _FORGETS.fullmatch(f"{name}={value.text}"):
            yield Sight("DELETE_LOGS", name)
    if call.verb in {"export", "declare", "env"}:
        for arg in call.args:
            if arg.text.partition("=")[0] in _SURE and "=" in arg.text:
                yield Sight("LIBRARY_INJECTION", arg.text.partition("=")[0])


def _crontab(call: Call, _: Around) -> Iterator[Sight]:
    given = options(call.args, frozenset({"-u"}))
    if given.any("-r"):
        yield Sight("STOP_SERVICE", "crontab")
    elif not given.any("-l", "-e", "-T", "-V") and (
        given.operands or call.stdin.text or call.piped or call.reads
    ):
        yield Sight("STARTUP_JOB", "cron")


def _at(call: Call, _: Around) -> Iterator[Sight]:
    if call.has("-l", "-r", "-d", "-c", "-V") or not call.args:
        return
    if call.piped or call.stdin.text or call.has("-f") or call.reads:
        yield Sight("STARTUP_JOB", "at")


def _systemctl(call: Call, _: Around) -> Iterator[Sight]:
    operands = [arg.text for arg in options(call.args).operands]
    if not operands:
        return
    action, units = operands[0], " ".join(operands[1:])
    if action in {"stop", "disable", "mask", "kill"}:
        yield Sight("DEFENCE_OFF" if _guards(units) else "STOP_SERVICE", units)
    elif action in {"enable", "link", "reenable"}:
        yield Sight("SERVICE_ENABLE", units)
    elif action in _STOPPING and not call.has("cancel"):
        yield Sight("SHUT_DOWN", action)


_STOPPING = frozenset(names("poweroff reboot halt kexec rescue emergency"))
_GUARDS = re.compile(
    r"(?i)\b(?:auditd|falco|osquery|apparmor|selinux|firewalld|ufw|iptables|nftables|fail2ban|clam"
    r"|crowdstrike|sentinel|wazuh|ossec|sysmon|r?syslog|systemd-journald|cbdaemon|carbonblack|mdatp"
    r"|samhain|aide\b|defender|windefend|mpssvc|eventlog|sophos|mcafee|symantec|esets|avast|kaspersky"
    r"|cylance|tanium|auoms|wscsvc|securityhealth)"
)


def _guards(units: str) -> bool:
    return bool(_GUARDS.search(units))


def _service(call: Call, _: Around) -> Iterator[Sight]:
    """`service NAME stop`, `rc-service`, `/etc/init.d/NAME stop`."""
    if call.has("stop", "disable") and call.args:
        name = call.texts[0]
        yield Sight("DEFENCE_OFF" if _guards(name) else "STOP_SERVICE", name)


def _kill(call: Call, _: Around) -> Iterator[Sight]:
    text = " ".join(call.texts)
    if call.has("-l", "-L", "--list", "-0") or not call.args:
        return
    everything = call.verb == "kill" and ("-1" in call.texts[1:] or call.texts[-1:] == ["1"])
    if _guards(text):
        yield Sight("DEFENCE_OFF", call.texts[-1])
    elif everything:
        yield Sight("SHUT_DOWN", "every process")
    else:
        yield Sight("STOP_SERVICE", call.texts[-1])


ROWS: Rows = {
    "launchctl": (
        ("STARTUP_JOB", r"^(?:load|bootstrap|submit|enable|kickstart)\b"),
        ("DEFENCE_WEAKENED", r"^(?:unload|bootout|disable|remove)\b"),
        ("LIBRARY_INJECTION", r"^(?:setenv|config)\b"),
    ),
    "systemd-run": (
        ("STARTUP_JOB", r"--on-(?:calendar|active|boot|startup|unit)|--timer-property"),
    ),
    "chkconfig": (("SERVICE_ENABLE", r"\bon\b|--add"),),
    "update-rc.d": (("SERVICE_ENABLE", r"defaults|enable"),),
    "rc-update": (("SERVICE_ENABLE", r"\badd\b"),),
    "sysrc": (("SERVICE_ENABLE", r"_enable"),),
    "defaults": (
        ("STARTUP_FILE", r"(?i)write .*(?:LoginHook|LogoutHook|loginwindow|AutoLaunched)"),
        (
            "DEFENCE_WEAKENED",
            r"(?i)write .*(?:LSQuarantine|com\.apple\.alf|GKAutoRearm|SoftwareUpdate)",
        ),
        ("HIDDEN_FILE", r"(?i)write .*(?:AppleShowAllFiles|Hide500Users)"),
    ),
    "trust": (("TRUST_STORE", r"^anchor\b(?!.*--remove)"),),
    "loginctl": (
        ("SERVICE_ENABLE", r"enable-linger"),
        ("SHUT_DOWN", r"^(?:poweroff|reboot|terminate)"),
    ),
    "emond": (("STARTUP_JOB", r""),),
    "osascript": (("STARTUP_JOB", r"(?i)login item"),),
}
JUDGES: dict[str, tuple[Judge, ...]] = {
    "crontab": (_crontab,),
    "at": (_at,),
    "batch": (_at,),
    "systemctl": (_systemctl,),
    "service": (_service,),
    "rc-service": (_service,),
    "invoke-rc.d": (_service,),
    **dict.fromkeys(("kill", "pkill", "killall", "xkill"), (_kill,)),
}
