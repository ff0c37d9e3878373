"""Checks for programs whose arguments need more than a pattern, network programs apart.

They give rights (root, groups, modes, accounts, containers), run or stop something (jobs, services,
processes), or hold shared data (repositories, databases, archives).
"""

import fnmatch
import re
from collections.abc import Iterator

from demur.guards.code_execution.call import CommandHit, ProgramCall, Taint, parse_options
from demur.guards.code_execution.carriers import opens_shell
from demur.guards.code_execution.context import CommandCheck, CommandContext
from demur.guards.code_execution.effects import EffectKind, find_effects
from demur.guards.code_execution.launchers import SHELLS, find_code
from demur.guards.code_execution.paths import PathKind, classify_path
from demur.guards.sql import find_host_access
from demur.guards.static.source_text import split_names, word_set

_ADMINS = r"(?:sudo|wheel|admin|root|adm|docker|lxd|disk|shadow|administrators)"
_ADDS_ADMIN = re.compile(
    rf"(?:^| )(?:-u|--uid|-g|--gid) ?0\b|-[A-Za-z]*[Gg] ?\S*\b{_ADMINS}\b|-ou 0"
)
_MAKES_ADMIN = re.compile(
    rf"(?:^| )-[a-zA-Z]*G[a-zA-Z]* \S*\b{_ADMINS}\b|--groups[ =]\S*\b{_ADMINS}\b|-o?u 0\b"
)
_RAISERS = frozenset({"sudo", "doas", "su", "pkexec", "run0", "gosu", "su-exec"})


def _check_sudo(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    """`sudo` alone is noted; a shell behind it is judged as a shell."""
    options = parse_options(call.args[:3], frozenset({"-u", "--user", "-g", "-p"}))
    if options.has_any("-i", "-s", "--login", "--shell") and not options.operands:
        yield CommandHit("ROOT_SHELL", "root")
    elif options.has_any("-l", "--list"):
        yield CommandHit("HOST_FACTS", "sudo rights")
    elif options.operands:
        yield CommandHit("SUDO", "root")


def _check_su(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    options = parse_options(call.args, frozenset({"-c", "--command", "-s", "-g", "-w"}))
    user = next((arg.text for arg in options.operands if arg.text != "-"), "root")
    if not options.has_any("-V", "-h"):
        yield CommandHit("SUDO" if options.has_any("-c", "--command") else "ROOT_SHELL", user)


def _check_shell(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    """An interactive shell behind a program that raises privileges, or is not made to start it."""
    raises = not _RAISERS.isdisjoint(call.via)
    if not raises and not opens_shell(call.via):
        return
    if call.stdin.taints or (raises and call.piped):
        return
    codes = list(find_code(call))
    if codes and all(code.text is None and code.file is None for code in codes):
        yield CommandHit("ROOT_SHELL" if raises else "PROXY_EXECUTION", "root" * raises)


# Setuid alone: the group bit of a folder (2775, g+s) only says which group new files get.
_SETS_ID = re.compile(r"(?:^|,)(?:[goa]*[ua][ugoa]*)?[+=][rwxXt]*s|^0?[4-7][0-7]{3}$")
_OPENS = re.compile(r"^0?[0-7]?[0-7]{2}[2367]$|(?:^|,)(?:[ug]*[oa][ugoa]*)?[+=][rxXst]*w")


def _check_chmod(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    options = parse_options(call.args, frozenset({"--reference"}))
    modes = [arg for arg in call.args if _SETS_ID.search(arg.text) or _OPENS.search(arg.text)]
    if not modes:
        return
    mode = modes[0]
    targets = [arg for arg in options.operands if arg is not mode] or [mode]
    if _SETS_ID.search(mode.text):
        yield CommandHit("SETUID", targets[0].text)
        return
    for target in targets[:8]:
        where = classify_path(target.text, call.cwd, context.bounds)
        if where in {PathKind.ROOT, PathKind.SYSTEM, PathKind.HOME_ITSELF, PathKind.DEVICE}:
            yield CommandHit("WORLD_WRITABLE", target.text)


def _check_install(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    """`install -m MODE`."""
    options = parse_options(call.args, word_set("-m --mode -o -g -t -S"))
    mode = options.values.get("-m") or options.values.get("--mode")
    if mode is not None and _SETS_ID.search(mode.text):
        yield CommandHit("SETUID", options.operands[-1].text if options.operands else mode.text)


def _check_modes(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """Note a change of modes, owners or attributes of files outside the workspace."""
    operands = parse_options(call.args).operands[1:]
    paths = (arg for arg in operands if "/" in arg.text)
    if foreign := next((arg for arg in paths if not context.is_own_path(arg, call.cwd)), None):
        yield CommandHit("MODE_CHANGE", foreign.text)


def _check_chown(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """Report a change of owner of system trees; inside the workspace it is harmless."""
    options = parse_options(call.args, frozenset({"--from", "--reference"}))
    tree = options.has_any("-R", "--recursive")
    for target in options.operands[1:9]:
        where = classify_path(target.text, call.cwd, context.bounds)
        if where is PathKind.ROOT or (where is PathKind.SYSTEM and tree):
            yield CommandHit("OWNERSHIP", target.text)


def _check_useradd(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    text = " ".join(call.texts)
    if _ADDS_ADMIN.search(text):
        yield CommandHit("ADMIN_GROUP", "root")
    elif call.verb == "adduser" and re.search(rf"\S+ {_ADMINS}$", text):
        yield CommandHit("ADMIN_GROUP", call.texts[-1])
    elif call.args and not call.has_arg("-D", "--defaults"):
        yield CommandHit("ACCOUNT_CREATE", call.texts[-1])


def _check_usermod(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    text = " ".join(call.texts)
    if _MAKES_ADMIN.search(text):
        yield CommandHit("ADMIN_GROUP", call.texts[-1])
    elif call.has_arg("-L", "--lock") or re.search(r"(?:-e|--expiredate)[ =]?(?:1\b|0\b|19)", text):
        yield CommandHit("ACCOUNT_CHANGE", call.texts[-1])
    elif call.has_arg("-p", "--password", "-U", "--unlock"):
        yield CommandHit("ACCOUNT_CREATE", call.texts[-1])
    elif call.args:
        yield CommandHit("ACCOUNT_CHANGE", call.texts[-1])


def _check_container(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    """Report a container that gets the host's root, processes or devices."""
    text = " ".join(call.texts)
    if not re.match(r"(?:container )?(?:run|create|exec)\b", text):
        return
    if re.search(r"(?:-v|--volume)[ =]/:|source=/,|src=/,|docker\.sock", text) or (
        "--privileged" in text and re.search(r"nsenter|--pid[= ]host|chroot", text)
    ):
        yield CommandHit("CONTAINER_ESCAPE", "/")
    elif re.search(r"--privileged|--pid[= ]host|--cap-add[= ](?:ALL|SYS_ADMIN|SYS_PTRACE)", text):
        yield CommandHit("CONTAINER_PRIVILEGED", "host")


_SURE = frozenset({"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV"})
_LIBRARIES = ("/usr/lib", "/usr/local/lib", "/lib", "/opt/homebrew/")
_FORGETS = re.compile(
    r"HISTFILE=(?:/dev/null)?|HIST(?:FILE)?SIZE=0|HISTCONTROL=ignore\w+|HISTIGNORE=.*\*.*"
)


def check_environment(call: ProgramCall) -> Iterator[CommandHit]:
    """Yield a hit for a variable that makes other programs load or run something."""
    for name, value in call.environment:
        if name in _SURE and not value.text.startswith(_LIBRARIES):
            yield CommandHit("LIBRARY_INJECTION", name)
        elif name.startswith("HIST") and _FORGETS.fullmatch(f"{name}={value.text}"):
            yield CommandHit("DELETE_LOGS", name)
    if call.verb in {"export", "declare", "env"}:
        for name, equals, path in (arg.text.partition("=") for arg in call.args):
            if name in _SURE and equals and not path.startswith(_LIBRARIES):
                yield CommandHit("LIBRARY_INJECTION", name)


def _check_crontab(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    options = parse_options(call.args, frozenset({"-u"}))
    if options.has_any("-r"):
        yield CommandHit("STOP_SERVICE", "crontab")
    elif not options.has_any("-l", "-e", "-T", "-V") and (
        options.operands or call.stdin.text or call.piped or call.reads
    ):
        yield CommandHit("STARTUP_JOB", "cron")


def _check_at(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    if call.has_arg("-l", "-r", "-d", "-c", "-V") or not (call.args or call.verb == "batch"):
        return
    if call.piped or call.stdin.text or call.has_arg("-f") or call.reads:
        yield CommandHit("STARTUP_JOB", call.verb)


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


_STOPPING = word_set("poweroff reboot halt kexec rescue emergency")
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
    if _names_defence(text):
        yield CommandHit("DEFENCE_OFF", call.texts[-1])
    elif call.verb == "kill" and ("-1" in call.texts[1:] or _ends_init(call.texts)):
        yield CommandHit("SHUT_DOWN", "every process")
    else:
        yield CommandHit("STOP_SERVICE", call.texts[-1])


def _ends_init(texts: list[str]) -> bool:
    """Whether the first process is to end: servers in containers read other signals as orders."""
    return texts[-1] == "1" and not any(_ORDER.fullmatch(text) for text in texts[:-1])


_ORDER = re.compile(r"(?i)-?(?:sig)?(?:hup|usr1|usr2|winch)|-(?:1|10|12|28)")


def _check_git(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    args = list(call.args)
    while args and args[0].text.startswith("-"):
        del args[: 2 if args[0].text in {"-c", "-C", "--git-dir", "--work-tree"} else 1]
    if not args:
        return
    rest = args[1:]
    options = parse_options(rest, frozenset({"-m", "-o", "--push-option"}))
    texts = [arg.text for arg in rest]
    action = args[0].text
    if any(text.startswith("ext::") for text in texts):
        yield CommandHit("PROXY_EXECUTION", "ext::")
    if action == "push":
        yield from _check_push(texts, [arg.text for arg in options.operands[1:]], context)
    elif action == "clean":
        forced = options.has_any("-f", "--force") and options.has_any("-x", "-X", "-d")
        if forced and not options.has_any("-n", "--dry-run", "-i"):
            yield CommandHit("GIT_CLEAN", "untracked files")
    elif action in _REWRITES and re.search(_REWRITES[action], " ".join(texts)):
        yield CommandHit("GIT_REWRITE", action)


_REWRITES = {
    "reset": r"--hard",
    "checkout": r"(?:^| )(?:-f|--force|\.)(?: |$)",
    "restore": r"(?:^| )\.(?: |$)",
    **dict.fromkeys(("filter-branch", "filter-repo"), ""),
    "reflog": r"^(?:expire|delete)",
    "gc": r"--prune=now",
    "stash": r"^(?:drop|clear)",
    "branch": r"(?:^| )-D",
    "update-ref": r"-d",
}


def _check_push(texts: list[str], refs: list[str], context: CommandContext) -> Iterator[CommandHit]:
    marked = any(ref.startswith(("+", ":")) for ref in refs)
    if not marked and {"-f", "--force", "--mirror", "-d", "--delete"}.isdisjoint(texts):
        return
    names = [ref.lstrip("+:").rpartition(":")[2].removeprefix("refs/heads/") for ref in refs]
    branches = context.config.branches
    protected = [name for name in names if any(fnmatch.fnmatchcase(name, b) for b in branches)]
    if protected or "--mirror" in texts:
        yield CommandHit("GIT_FORCE_PUSH", protected[0] if protected else "every branch")
    else:
        yield CommandHit("GIT_REWRITE", names[0] if names else "the current branch")


_DROPS = re.compile(
    r"(?i)\b(?:drop\s+(?:database|schema|table|user|role)|truncate\s+(?:table\s+)?\w+|flushall|flushdb"
    r"|dropdatabase\s*\(|\.drop\s*\(|deletemany\s*\(\s*\{\s*\}\s*\)"
    r"|delete\s+from\s+[\w.\"`]+\s*(?:;|$|where\s+(?:1\s*=\s*1|true)))"
)


_TEMPORARY = re.compile(r"(?i)drop\s+table\s+(?:if\s+exists\s+)?[\"`]?(?:tmp|temp)(?:_\w+)?\b")


def _check_database(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    for text in (*call.texts, call.stdin.text):
        if access := next(find_host_access(text), None):
            rule = "PROXY_EXECUTION" if access.reach == "program" else "SECRET_READ"
            yield CommandHit(rule, access.name)
            break
    if call.verb == "sqlite3":
        files = parse_options(call.args, frozenset({"-cmd", "-init", "-separator"})).operands[:1]
        # A file that may be deleted may be emptied.
        if all(file.text == ":memory:" or context.is_own_path(file, call.cwd) for file in files):
            return
    for text in (" ".join(call.texts), call.stdin.text):
        if match := _DROPS.search(_TEMPORARY.sub("", text)):
            yield CommandHit("DROP_DATABASE", " ".join(match[0].split()[:2]).lower())
            return


_LOCKS = {
    "gpg": r"(?:^| )(?:-c|-e|-ce|--symmetric|--encrypt)\b",
    "openssl": r"^(?:enc\b(?!.* -d\b)|rsautl .*-encrypt|smime .*-encrypt|cms .*-encrypt)",
    **dict.fromkeys(("7z", "7za"), r"(?:^| )-p\S*"),
    "rar": r"(?:^| )-h?p\S*",
    "zip": r"(?:^| )(?:-e|-P|--encrypt|--password)\b",
    "ccencrypt": r"",
    "ccrypt": r"(?:-e|--encrypt)",
    "age": r"(?:-p|-r|-e)\b",
}
_PACKERS = frozenset({"tar", "zip", "7z", "7za", "rar", "gzip", "ditto", "cpio"})


def check_packed(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """Yield a hit if the call encrypts or packs files outside the workspace."""
    foreign = [
        effect.target
        for effect in find_effects(call)
        if effect.kind is EffectKind.READ and not context.is_own_path(effect.target, call.cwd)
    ]
    if not foreign:
        return
    if call.verb in _LOCKS and re.search(_LOCKS[call.verb], " ".join(call.texts)):
        yield CommandHit("ENCRYPT_IN_PLACE", foreign[0].text)
    elif call.verb in _PACKERS:
        yield CommandHit("DATA_STAGED", foreign[0].text)


def check_disguised(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    """Yield a hit if the call copies an interpreter to another name."""
    operands = parse_options(call.args).operands
    if len(operands) == 2 and _INTERPRETER.fullmatch(operands[0].text):
        name = operands[0].text.rpartition("/")[2]
        if not operands[1].text.rstrip("/").endswith(name) and not operands[1].text.endswith("/"):
            yield CommandHit("PROXY_EXECUTION", name)


_INTERPRETER = re.compile(
    r"(?:/usr)?(?:/local)?/bin/(?:ba|z|da|k|c)?sh|/usr/bin/(?:python|perl|ruby|nc|curl|wget)[\d.]*"
)


def _check_shown(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    """Yield a hit if a secret that was read before is printed, and no program takes it up."""
    if not call.piped and not call.writes:
        for arg in call.args:
            if Taint.SECRET in arg.taints:
                yield CommandHit("SECRET_READ", "printed")


PROGRAM_CHECKS: dict[str, tuple[CommandCheck, ...]] = {
    **dict.fromkeys(("echo", "printf"), (_check_shown,)),
    **dict.fromkeys(("sudo", "doas", "run0", "pkexec"), (_check_sudo,)),
    **dict.fromkeys(("su", "runuser"), (_check_su,)),
    **dict.fromkeys(sorted(SHELLS), (_check_shell,)),
    **dict.fromkeys(("docker", "podman", "nerdctl"), (_check_container,)),
    **dict.fromkeys(("useradd", "adduser"), (_check_useradd,)),
    "usermod": (_check_usermod,),
    "chmod": (_check_chmod, _check_modes),
    **dict.fromkeys(("chown", "chgrp"), (_check_chown, _check_modes)),
    "setfacl": (_check_modes,),
    "crontab": (_check_crontab,),
    **dict.fromkeys(("at", "batch"), (_check_at,)),
    "systemctl": (_check_systemctl,),
    **dict.fromkeys(("service", "rc-service", "invoke-rc.d"), (_check_service,)),
    **dict.fromkeys(("kill", "pkill", "killall", "xkill"), (_check_kill,)),
    **dict.fromkeys(("cp", "mv"), (check_disguised,)),
    "install": (check_disguised, _check_install),
    "git": (_check_git,),
    **dict.fromkeys(sorted({*_LOCKS, *_PACKERS}), (check_packed,)),
    **dict.fromkeys(
        split_names("mysql mariadb psql sqlite3 mongo mongosh sqlcmd cqlsh clickhouse-client"),
        (_check_database,),
    ),
}
