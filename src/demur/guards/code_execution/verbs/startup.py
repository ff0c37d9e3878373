"""Programs that make something run later: jobs, services, agents, hooks, injected libraries."""

import re
from collections.abc import Iterator

from demur.guards.code_execution.call import ProgramCall, CommandHit, parse_options
from demur.guards.code_execution.names import split_names
from demur.guards.code_execution.verbs.around import CommandContext, CommandCheck, CommandRows

__all__ = ["STARTUP_CHECKS", "STARTUP_ROWS", "check_environment"]

_SURE = frozenset({"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "PROMPT_COMMAND"})


_FORGETS = re.compile(
    r"HISTFILE=(?:/dev/null)?|HIST(?:FILE)?SIZE=0|HISTCONTROL=ignore\w+|HISTIGNORE=.*\*.*"
)


def check_environment(call: ProgramCall) -> Iterator[CommandHit]:
    """Yield a hit for a variable that makes other programs load or run something."""
    for name, value in call.environment:
        if name in _SURE:
            yield CommandHit("LIBRARY_INJECTION", name)
        elif name.startswith("HIST") and _FORGETS.fullmatch(f"{name}={value.text}"):
            yield CommandHit("DELETE_LOGS", name)
    if call.verb in {"export", "declare", "env"}:
        for arg in call.args:
            if arg.text.partition("=")[0] in _SURE and "=" in arg.text:
                yield CommandHit("LIBRARY_INJECTION", arg.text.partition("=")[0])


def _check_crontab(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    given = parse_options(call.args, frozenset({"-u"}))
    if given.has_any("-r"):
        yield CommandHit("STOP_SERVICE", "crontab")
    elif not given.has_any("-l", "-e", "-T", "-V") and (
        given.operands or call.stdin.text or call.piped or call.reads
    ):
        yield CommandHit("STARTUP_JOB", "cron")


def _check_at(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    if call.has_arg("-l", "-r", "-d", "-c", "-V") or not call.args:
        return
    if call.piped or call.stdin.text or call.has_arg("-f") or call.reads:
        yield CommandHit("STARTUP_JOB", "at")


def _check_systemctl(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    operands = [arg.text for arg in parse_options(call.args).operands]
    if not operands:
        return
    action, units = operands[0], " ".join(operands[1:])
    if action in {"stop", "disable", "mask", "kill"}:
        yield CommandHit("DEFENCE_OFF" if _names_defence(units) else "STOP_SERVICE", units)
    elif action in {"enable", "link", "reenable"}:
        yield CommandHit("SERVICE_ENABLE", units)
    elif action in _STOPPING and not call.has_arg("cancel"):
        yield CommandHit("SHUT_DOWN", action)


_STOPPING = frozenset(split_names("poweroff reboot halt kexec rescue emergency"))
_GUARDS = re.compile(
    r"(?i)\b(?:auditd|falco|osquery|apparmor|selinux|firewalld|ufw|iptables|nftables|fail2ban|clam"
    r"|crowdstrike|sentinel|wazuh|ossec|sysmon|r?syslog|systemd-journald|cbdaemon|carbonblack|mdatp"
    r"|samhain|aide\b|defender|windefend|mpssvc|eventlog|sophos|mcafee|symantec|esets|avast|kaspersky"
    r"|cylance|tanium|auoms|wscsvc|securityhealth)"
)


def _names_defence(units: str) -> bool:
    return bool(_GUARDS.search(units))


def _check_service(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    """`service NAME stop`, `rc-service`, `/etc/init.d/NAME stop`."""
    if call.has_arg("stop", "disable") and call.args:
        name = call.texts[0]
        yield CommandHit("DEFENCE_OFF" if _names_defence(name) else "STOP_SERVICE", name)


def _check_kill(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    text = " ".join(call.texts)
    if call.has_arg("-l", "-L", "--list", "-0") or not call.args:
        return
    everything = call.verb == "kill" and ("-1" in call.texts[1:] or call.texts[-1:] == ["1"])
    if _names_defence(text):
        yield CommandHit("DEFENCE_OFF", call.texts[-1])
    elif everything:
        yield CommandHit("SHUT_DOWN", "every process")
    else:
        yield CommandHit("STOP_SERVICE", call.texts[-1])


STARTUP_ROWS: CommandRows = {
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
STARTUP_CHECKS: dict[str, tuple[CommandCheck, ...]] = {
    "crontab": (_check_crontab,),
    "at": (_check_at,),
    "batch": (_check_at,),
    "systemctl": (_check_systemctl,),
    "service": (_check_service,),
    "rc-service": (_check_service,),
    "invoke-rc.d": (_check_service,),
    **dict.fromkeys(("kill", "pkill", "killall", "xkill"), (_check_kill,)),
}
