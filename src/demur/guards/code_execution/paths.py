r"""Classify paths: workspace, scratch, home, system, disk or elsewhere; and files known by name.

A path is classified by its text; nothing is looked up. Windows paths are converted to the same form
(`C:\Windows` is `/windows`, `%TEMP%` is scratch), so that one table serves all.
"""

import posixpath
import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from demur.guards.code_execution.event import CommandConfig

HOME = "/~"
_NOWHERE = "/\ufdd1"
_MAX_CACHED_LENGTH = 256


class PathKind(StrEnum):
    """The kinds of paths."""

    ROOT = "root"
    SYSTEM = "system"
    HOME_ITSELF = "home itself"
    HOME = "home"
    OUTSIDE = "outside"
    SCRATCH = "scratch"
    WORKSPACE_ITSELF = "workspace itself"
    INSIDE = "inside"
    DEVICE = "device"
    STREAM = "stream"
    UNKNOWN = "unknown"


class WorkspaceBounds(NamedTuple):
    """The folders in which the agent may write and delete."""

    workspace: tuple[str, ...]
    scratch: tuple[str, ...]
    home: str = HOME


@lru_cache(maxsize=256)
def workspace_bounds(config: CommandConfig, cwd: str | None) -> WorkspaceBounds:
    """Return the workspace for commands in `cwd`."""
    workspace = config.workspace or ((cwd,) if cwd else ())
    folders = tuple(canonical_path(folder, "/") for folder in workspace)
    scratch = tuple(canonical_path(folder, "/") for folder in config.scratch)
    # A workspace below a home directory tells which home `~` is.
    home = next((match[0] for folder in folders if (match := _HOMES.match(folder))), HOME)
    return WorkspaceBounds(folders or (_NOWHERE,), scratch, home)


def start_folder(bounds: WorkspaceBounds, cwd: str | None) -> str:
    """Return the folder that commands start in, as a canonical path."""
    return canonical_path(cwd, "/") if cwd else bounds.workspace[0]


_WINDOWS = re.compile(r"(?i)[a-z]:[\\/]|[a-z]:$|\\\\|%[a-z]|\$\{?env:|[a-z]:$|\.{0,2}\\")
_FOLDERS = {
    "temp": "/tmp",  # noqa: S108 - a name
    "tmp": "/tmp",  # noqa: S108 - a name
    "userprofile": HOME,
    "home": HOME,
    "homepath": HOME,
    "appdata": f"{HOME}/appdata/roaming",
    "localappdata": f"{HOME}/appdata/local",
    "systemroot": "/windows",
    "windir": "/windows",
    "systemdrive": "/",
    "homedrive": "/",
    "programfiles": "/program files",
    "programfiles(x86)": "/program files",
    "programdata": "/programdata",
    "allusersprofile": "/programdata",
    "public": "/users/public",
    "onedrive": f"{HOME}/onedrive",
}
_VARIABLE = re.compile(r"(?i)%([a-z0-9_()]+)%|\$\{?env:([a-z0-9_()]+)\}?|\$(home)\b")
_DRIVE = re.compile(r"(?i)^(?:\\\\\?\\)?[a-z]:")


def canonical_path(text: str, cwd: str) -> str:
    """Return `text` as an absolute path with slashes, without `.` and `..`."""
    return (
        _resolve_path(text, cwd)
        if len(text) < _MAX_CACHED_LENGTH
        else _resolve_path.__wrapped__(text, cwd)
    )


@lru_cache(maxsize=4096)
def _resolve_path(text: str, cwd: str) -> str:
    if _WINDOWS.match(text):
        text = (
            _DRIVE.sub("", _VARIABLE.sub(_environment_folder, text)).replace("\\", "/").lower()
            or "/"
        )
        if text.startswith("//"):
            return posixpath.normpath(text)
    path = posixpath.normpath(posixpath.join(cwd, text))
    return f"/{path.lstrip('/')}" if path.startswith("/") else path


def _environment_folder(match: re.Match[str]) -> str:
    name = (match[1] or match[2] or match[3]).lower()
    return _FOLDERS.get(name, f"/{name}")


_SYSTEM = re.compile(
    r"/(?:bin|sbin|lib|lib32|lib64|usr|etc|boot|var|opt|sys|proc|dev|run|system|library"
    r"|applications|private|windows|program files|programdata|home|users|volumes|snap|nix"
    r"|inetpub|recovery|efi)(?=/|$)",
    re.IGNORECASE,
)
_HOMES = re.compile(r"(?i)(?:/~|/root|/home/[^/]+|/users/(?!public)[^/]+)(?=/|$)")
_DISK = re.compile(
    r"/dev/(?:r?disk|[shv]d[a-z]|xvd[a-z]|nvme|mmcblk|loop|md|mapper/|dm-|disk/|da\d|ada\d)"
    r"|(?i://physicaldrive)"
)
_STREAM = re.compile(
    r"/dev/(?:null|zero|full|random|urandom|stdin|stdout|stderr|tty|fd/|pts/|tcp/|udp/)"
)
_KNOWN_VARIABLE = re.compile(r"(?i)\$\{?env:|\$home\b")
_ALL = re.compile(r"(?:\*+|\.\*|\*\.\*|\.\[!\.\]\*|\.\?\*|\?\*|\{\*,\.\*\})")
_GLOB = re.compile(r"/[^/]*[*?\[]")


def classify_path(text: str, cwd: str, bounds: WorkspaceBounds) -> PathKind:
    """Return the kind of the path `text`, relative to `cwd`."""
    if text.startswith("$") and not _KNOWN_VARIABLE.match(text):
        return PathKind.UNKNOWN
    path = canonical_path(text, cwd)
    if path == HOME or path.startswith(f"{HOME}/"):
        path = bounds.home + path[len(HOME) :]
    if path.startswith(("/dev/", "//")) and (device := _device_kind(path)):
        return device
    whole = _emptied_folder(path)
    inside = _workspace_relation(whole, bounds.workspace)
    if inside is not None:
        return inside
    if _workspace_relation(whole, bounds.scratch):
        return PathKind.SCRATCH
    return PathKind.ROOT if whole == "/" else _outside_kind(whole)


def _device_kind(path: str) -> PathKind | None:
    if _STREAM.match(path):
        return PathKind.STREAM
    return PathKind.DEVICE if _DISK.match(path) else None


def _emptied_folder(path: str) -> str:
    """Return the folder that a path such as `/srv/*` empties."""
    head, _, tail = path.rpartition("/")
    while tail and _ALL.fullmatch(tail):
        path = head or "/"
        head, _, tail = path.rpartition("/")
    return path


def _workspace_relation(path: str, folders: tuple[str, ...]) -> PathKind | None:
    """Return the kind of `path` if it is one of the folders or lies in one."""
    for folder in folders:
        if path == folder:
            return PathKind.WORKSPACE_ITSELF
        if path.startswith(folder if folder == "/" else f"{folder}/"):
            return PathKind.INSIDE
        if folder.startswith(path if path == "/" else f"{path}/") and folder != _NOWHERE:
            return None
    return None


def _outside_kind(path: str) -> PathKind:
    """Return the kind of a path outside the workspace and scratch."""
    if home := _HOMES.match(path):
        return PathKind.HOME_ITSELF if home.end() == len(path) else PathKind.HOME
    if _SYSTEM.match(path) or _GLOB.match(path):
        return PathKind.SYSTEM
    return PathKind.OUTSIDE


_SECRET = re.compile(
    r"""(?ix)
      /etc/(?:shadow|gshadow|master\.passwd|security/opasswd|krb5\.keytab|ssh/ssh_host_[a-z0-9_]+key)-?$
    | /\.ssh(?:/id_[a-z0-9_\-]+|/[^/]*\.pem|/\*|/identity)?$
    | /\.(?:aws|azure|gnupg|kube|password-store|oci|ibmcloud)(?:$|/(?!config\.example))
    | /\.config/(?:gcloud|gh/hosts\.yml|hub|op|rclone|doctl|google-chrome|chromium|browseruse)
    | /\.(?:netrc|pgpass|my\.cnf|git-credentials|vault-token|htpasswd|pypirc|boto|s3cfg|dockercfg)$
    | /\.docker/config\.json$ | /\.cargo/credentials | /\.terraform\.d/credentials
    | /(?:wallet\.dat|key[34]\.db|logins\.json|signons\.sqlite)$
    | /cookies\.(?:sqlite|binarycookies)$
    | /(?:login\ data|login\ data\ for\ account|web\ data|cookies)(?:\?|$|-journal)
    | /library/keychains | \.keychain(?:-db)?$ | /\.mozilla/firefox | /firefox/profiles
    | /user\ data/(?:default|profile[^/]*|local\ state)
    | /proc/[^/]+/(?:mem|environ|auxv)$ | /proc/kcore$ | /dev/k?mem$ | /dev/bpf\d*$
    | /run/secrets(?:/|$) | /var/run/secrets
    | /(?:system32/config/(?:sam|system|security|regback)|ntds/ntds\.dit|ntds\.dit)$
    | harddiskvolumeshadowcopy
    | /(?:id_rsa|id_dsa|id_ecdsa|id_ed25519)$
    | /unattend\.xml$ | /sysprep\.(?:xml|inf)$ | /groups\.xml$
    """
)
_NEAR_SECRET = re.compile(
    r"(?i)/\.env(?:\.[a-z]+)?$|\.(?:pem|key|pfx|p12|kdbx|keystore|jks)$|/etc/passwd$|/\.npmrc$"
    r"|/credentials(?:\.json)?$|/secrets?\.(?:ya?ml|json|toml)$|/\.(?:bash|zsh|sh|python)_history$"
    r"|/consolehost_history\.txt$|/var/log/(?:auth|secure)|/etc/sudoers"
)
_SENT_PUBLIC = re.compile(r"(?i)\.pub$|/known_hosts$|/authorized_keys$|\.env\.(?:example|sample)$")

_WRITTEN = (
    ("LINKER_PRELOAD", r"/etc/ld\.so\.(?:preload|conf)"),
    ("AUTHORIZED_KEYS", r"/\.ssh/authorized_keys2?$|/etc/ssh/sshd_config|/\.ssh/(?:config|rc)$"),
    ("SUDOERS", r"/etc/(?:sudoers|pam\.d/|pam\.conf|polkit-1/|doas\.conf|security/access)"),
    ("ACCOUNT_FILES", r"/etc/(?:passwd|shadow|group|gshadow|master\.passwd)-?$"),
    (
        "STARTUP_FILE",
        (
            r"/etc/(?:cron|anacrontab|at\.|init\.d|rc|inittab|profile|bash\.bashrc|bashrc|zsh|zprofile"
            r"|csh|systemd|environment|xdg/autostart|udev/rules|update-motd|modules|modprobe\.d"
            r"|apt/apt\.conf|networkmanager/dispatcher|dhcp|emond\.d|periodic|launchd\.conf|init/)"
            r"|/var/spool/(?:cron|at)|/var/at/|/private/var/db/emondclients"
            r"|/(?:usr/)?lib/(?:systemd|udev)|/usr/local/etc/(?:rc|periodic|cron)|/etc/hooks"
            r"|/library/(?:launchagents|launchdaemons|startupitems|loginplugins|quicklook|preferencepanes)"
            r"|/(?:\.bashrc|\.bash_profile|\.bash_login|\.bash_logout|\.profile|\.zshrc|\.zshenv"
            r"|\.zprofile|\.zlogin|\.zlogout|\.kshrc|\.cshrc|\.tcshrc|\.shrc|\.xinitrc|\.xprofile"
            r"|\.xsessionrc|\.pam_environment|\.inputrc|\.vimrc|\.emacs|\.gdbinit|\.login|\.logout)$"
            r"|/\.config/(?:autostart|systemd|fish/config|fish/conf)|/\.git/hooks/|/\.local/share/systemd"
            r"|/(?:sitecustomize|usercustomize)\.py$|site[-_]?packages\w*/[^/]+\.pth$"
            r"|/start\ menu/programs/startup|/system32/(?:drivers|tasks|wbem)|/xlstart/"
            r"|/microsoft/(?:addins|word/startup|templates)|profile\.ps1$|/\$profile\b|/windows/setup/scripts"
            r"|/system32/(?:sethc|utilman|osk|magnify|narrator|displayswitch|atbroker|wpbbin)\.exe$"
            r"|/grouppolicy/|/windows/(?:tasks|apppatch)"
        ),
    ),
    ("REMOTE_EXECUTION", r"^//[^/]+/(?:[a-z]|admin|ipc)\$"),
    ("SHUT_DOWN", r"/proc/sysrq-trigger$"),
    (
        "DEFENCE_WEAKENED",
        r"/etc/(?:selinux|apparmor|audit|rsyslog|hosts\.(?:allow|deny))|/sys/fs/selinux",
    ),
    ("KERNEL_MODULE", r"/proc/sys/kernel/|/etc/sysctl|/sys/kernel/|/sys/firmware/"),
    ("TRUST_STORE", r"/ca-certificates(?:/|$)|/ca-trust/|/etc/ssl/certs|/usr/local/share/certs"),
    ("DELETE_LOGS", r"/var/log/(?:wtmp|btmp|lastlog|auth|secure|messages|syslog|audit)|_history$"),
)
_WRITTEN_RULES = tuple((rule, re.compile(rf"(?i){pattern}")) for rule, pattern in _WRITTEN)
_ANY_WRITTEN = re.compile("(?i)" + "|".join(pattern for _, pattern in _WRITTEN))
_LOGS = re.compile(
    r"(?i)/var/log(?:/|$)|/private/var/audit|/var/audit|/var/spool/mail|/var/mail"
    r"|/\.[a-z]*_history$|/winevt/logs|/consolehost_history|/windows/prefetch|\.evtx$"
    r"|/library/logs|/mpsupport"
)
_SYSTEM_CRITICAL = re.compile(
    r"(?i)^/(?:etc/(?:passwd|shadow|group|sudoers|ssh/|nsswitch)"
    r"|boot/|bin/|sbin/|lib(?:32|64)?/|usr/(?:bin|sbin|lib)/|system/|windows/system32/)"
)


def read_rule(path: str) -> str:
    """Return the rule on reading `path`, if any."""
    if _SECRET.search(path):
        return "" if _SENT_PUBLIC.search(path) else "SECRET_READ"
    if _NEAR_SECRET.search(path):
        return "" if _SENT_PUBLIC.search(path) else "SECRET_NEAR"
    return ""


def write_rule(path: str) -> str:
    """Return the rule on writing `path`, if any."""
    if not _ANY_WRITTEN.search(path):
        return ""
    return next(rule for rule, pattern in _WRITTEN_RULES if pattern.search(path))


def delete_rule(path: str) -> str:
    """Return the rule on deleting `path` by its name, whatever its kind, if any."""
    return "DELETE_LOGS" if _LOGS.search(path) else ""


def is_system_critical(path: str) -> bool:
    """Whether the system needs `path` in order to start or to let people in."""
    return bool(_SYSTEM_CRITICAL.search(path))
