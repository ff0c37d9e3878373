"""Files that matter by name: what reading, writing or deleting each of them would mean."""

import re

__all__ = ["read_rule", "delete_rule", "write_rule"]

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
