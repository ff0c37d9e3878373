"""Programs that give rights: root, groups, modes, owners, accounts, the kernel, containers."""

import re
from collections.abc import Iterator

from demur.guards.code_execution.call import Call, Sight, options
from demur.guards.code_execution.interpreters import SHELLS, codes
from demur.guards.code_execution.places import Place, place
from demur.guards.code_execution.verbs.around import Around, Judge, Rows

__all__ = ["JUDGES", "ROWS"]

_ADMINS = r"(?:sudo|wheel|admin|root|adm|docker|lxd|disk|shadow|administrators)"
_RAISERS = frozenset({"sudo", "doas", "su", "pkexec", "run0", "gosu", "su-exec"})


def _sudo(call: Call, _: Around) -> Iterator[Sight]:
    """`sudo` alone is noted; a shell behind it is judged as a shell."""
    given = options(call.args[:3], frozenset({"-u", "--user", "-g", "-p"}))
    if given.any("-i", "-s", "--login", "--shell") and not given.operands:
        yield Sight("ROOT_SHELL", "root")
    elif given.any("-l", "--list"):
        yield Sight("HOST_FACTS", "sudo rights")
    elif given.operands:
        yield Sight("SUDO", "root")


def _su(call: Call, _: Around) -> Iterator[Sight]:
    given = options(call.args, frozenset({"-c", "--command", "-s", "-g", "-w"}))
    user = next((arg.text for arg in given.operands if arg.text != "-"), "root")
    if given.any("-V", "-h"):
        return
    commanded = given.any("-c", "--command")
    yield Sight("SUDO" if commanded else "ROOT_SHELL", user)


def _shell(call: Call, _: Around) -> Iterator[Sight]:
    """An interactive shell behind a program that raises privileges."""
    raised = [name for name in call.via if name in _RAISERS]
    if not raised or call.stdin.taints or call.piped:
        return
    if all(code.text is None and code.file is None for code in codes(call)):
        yield Sight("ROOT_SHELL", "root")


_SETS_ID = re.compile(r"(?:^|,)(?:[ugoa]*[ug][ugoa]*)?[+=][rwxXt]*s|^0?[246][0-7]{3}$")
_OPENS = re.compile(r"^0?[0-7]?[0-7]{2}[2367]$|(?:^|,)(?:[ug]*[oa][ugoa]*)?[+=][rxXst]*w")


def _chmod(call: Call, around: Around) -> Iterator[Sight]:
    given = options(call.args, frozenset({"--reference"}))
    modes = [arg for arg in call.args if _SETS_ID.search(arg.text) or _OPENS.search(arg.text)]
    if not modes:
        return
    mode = modes[0]
    targets = [arg for arg in given.operands if arg is not mode] or [mode]
    if _SETS_ID.search(mode.text):
        yield Sight("SETUID", targets[0].text)
        return
    for target in targets[:8]:
        where = place(target.text, call.cwd, around.bounds)
        if where in {Place.ROOT, Place.SYSTEM, Place.HOME_ITSELF, Place.DEVICE}:
            yield Sight("WORLD_WRITABLE", target.text)


def _modes(call: Call, around: Around) -> Iterator[Sight]:
    """Note a change of modes, owners or attributes of files outside the workspace."""
    operands = options(call.args).operands[1:]
    foreign = [arg for arg in operands if not around.own(arg, call.cwd) and "/" in arg.text]
    if foreign:
        yield Sight("MODE_CHANGE", foreign[0].text)


def _chown(call: Call, around: Around) -> Iterator[Sight]:
    """Report a change of owner of system trees; inside the workspace it is harmless."""
    given = options(call.args, frozenset({"--from", "--reference"}))
    for target in given.operands[1:9]:
        where = place(target.text, call.cwd, around.bounds)
        system = where is Place.ROOT or (where is Place.SYSTEM and given.any("-R", "--recursive"))
        if system:
            yield Sight("OWNERSHIP", target.text)


def _useradd(call: Call, _: Around) -> Iterator[Sight]:
    text = " ".join(call.texts)
    if re.search(
        rf"(?:^| )(?:-u|--uid|-g|--gid) ?0\b|-[A-Za-z]*[Gg] ?\S*\b{_ADMINS}\b|-ou 0", text
    ):
        yield Sight("ADMIN_GROUP", "root")
    elif call.verb == "adduser" and re.search(rf"\S+ {_ADMINS}$", text):
        yield Sight("ADMIN_GROUP", call.texts[-1])
    elif call.args and not call.has("-D", "--defaults"):
        yield Sight("ACCOUNT_CREATE", call.texts[-1])


def _usermod(call: Call, _: Around) -> Iterator[Sight]:
    text = " ".join(call.texts)
    if re.search(
        rf"(?:^| )-[a-zA-Z]*G[a-zA-Z]* \S*\b{_ADMINS}\b|--groups[ =]\S*\b{_ADMINS}\b|-o?u 0\b", text
    ):
        yield Sight("ADMIN_GROUP", call.texts[-1])
    elif call.has("-L", "--lock") or re.search(r"(?:-e|--expiredate)[ =]?(?:1\b|0\b|19)", text):
        yield Sight("ACCOUNT_CHANGE", call.texts[-1])
    elif call.has("-p", "--password", "-U", "--unlock"):
        yield Sight("ACCOUNT_CREATE", call.texts[-1])
    elif call.args:
        yield Sight("ACCOUNT_CHANGE", call.texts[-1])


def _container(call: Call, _: Around) -> Iterator[Sight]:
    """Report a container that gets the host's root, processes or devices."""
    text = " ".join(call.texts)
    if not re.match(r"(?:container )?(?:run|create|exec)\b", text):
        return
    if re.search(r"(?:-v|--volume)[ =]/:|source=/,|src=/,|docker\.sock", text) or (
        "--privileged" in text and re.search(r"nsenter|--pid[= ]host|chroot", text)
    ):
        yield Sight("CONTAINER_ESCAPE", "/")
    elif re.search(r"--privileged|--pid[= ]host|--cap-add[= ](?:ALL|SYS_ADMIN|SYS_PTRACE)", text):
        yield Sight("CONTAINER_PRIVILEGED", "host")


ROWS: Rows = {
    "setcap": (("CAPABILITIES", r"(?i)cap_|^\S"),),
    "visudo": (("SUDOERS", r"^(?!.*(?:-c|--check))"),),
    "sudoedit": (("SUDOERS", r"sudoers"), ("SUDO", r"")),
    "gpasswd": (("ADMIN_GROUP", rf"(?:-a|--add) \S+ {_ADMINS}\b"), ("ACCOUNT_CHANGE", r"\S")),
    "dseditgroup": (("ADMIN_GROUP", rf"\b{_ADMINS}$"),),
    "dscl": (
        ("ADMIN_GROUP", r"(?i)-append /Groups/(?:admin|wheel)"),
        ("ACCOUNT_CREATE", r"(?i)-(?:create|passwd) /Users"),
        ("HOST_FACTS", r"(?i)-?(?:list|ls|read|search)"),
    ),
    "dsenableroot": (("ACCOUNT_CREATE", r"^(?!.*-d\b)"),),
    "sysadminctl": (
        ("ADMIN_GROUP", r"-admin\b"),
        ("ACCOUNT_CREATE", r"-addUser|-guestAccount on|-resetPassword"),
    ),
    "pw": (
        ("ADMIN_GROUP", r"-g ?(?:0|wheel)\b|-G ?\S*wheel"),
        ("ACCOUNT_CREATE", r"(?:user|add|mod|unlock)"),
    ),
    "passwd": (
        ("ACCOUNT_CHANGE", r"(?:^| )(?:-l|--lock)\b"),
        ("ACCOUNT_CREATE", r"(?:-d|--delete|-u|--unlock|--stdin)\b"),
        ("ACCOUNT_CHANGE", r""),
    ),
    "chpasswd": (("ACCOUNT_CHANGE", r""),),
    "chsh": (("ACCOUNT_CHANGE", r"\S"),),
    "newusers": (("ACCOUNT_CREATE", r""),),
    "vipw": (("ACCOUNT_FILES", r""),),
    "userdel": (("DELETE_ACCOUNT", r"\S"),),
    "deluser": (("DELETE_ACCOUNT", r"\S"),),
    "insmod": (("KERNEL_MODULE", r"\S"),),
    "modprobe": (("SYSTEM_MODULE", r"^(?!.*(?:-n\b|--dry-run|--show|-c\b|--list|-l\b|-D\b))\S"),),
    "rmmod": (("SYSTEM_MODULE", r"\S"),),
    "kldload": (("KERNEL_MODULE", r"/"), ("SYSTEM_MODULE", r"\S")),
    "kextload": (("KERNEL_MODULE", r"\S"),),
    "kmutil": (("SYSTEM_MODULE", r"\bload\b"),),
    "nsenter": (("CONTAINER_ESCAPE", r"(?:-t|--target)[ =]?1\b|/proc/1/"), ("SUDO", r"\S")),
    "sysctl": (
        (
            "DEFENCE_WEAKENED",
            r"kernel\.(?:randomize_va_space|yama|kptr|dmesg_restrict|core_pattern|modules)\S*=",
        ),
    ),
    "mount": (
        ("CONTAINER_PRIVILEGED", r"/dev/(?:sd|dm|vd|nvme|xvd|mapper)\S* \S*/(?:host|mnt/host)"),
    ),
}
JUDGES: dict[str, tuple[Judge, ...]] = {
    **dict.fromkeys(("sudo", "doas", "run0", "pkexec"), (_sudo,)),
    **dict.fromkeys(("su", "runuser"), (_su,)),
    **dict.fromkeys(sorted(SHELLS), (_shell,)),
    **dict.fromkeys(("docker", "podman", "nerdctl"), (_container,)),
    **dict.fromkeys(("useradd", "adduser"), (_useradd,)),
    "usermod": (_usermod,),
    "chmod": (_chmod, _modes),
    "chown": (_chown, _modes),
    "chgrp": (_chown, _modes),
    "setfacl": (_modes,),
}
