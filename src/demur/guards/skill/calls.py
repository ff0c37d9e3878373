"""Which calls of Python matter to the guard, by their dotted names."""

import re

__all__ = [
    "OPAQUE_BUILTINS",
    "DECODERS",
    "ENVIRONMENTS",
    "EXECUTORS",
    "NETWORK",
    "PROCESSES",
    "READERS",
    "SECRET_NAME",
    "SECRET_PLACE",
    "SENDERS",
    "SHELLS",
    "STARTUP_PLACE",
    "TOKENS",
    "UNPICKLERS",
    "WIPERS",
    "is_network",
]

EXECUTORS = frozenset({"eval", "exec", "six.exec_", "code.InteractiveInterpreter.runsource"})
# Functions that pass their first argument to a shell.
SHELLS = frozenset(
    {
        "os.popen",
        "os.system",
        "asyncio.create_subprocess_shell",
        "commands.getoutput",
        "commands.getstatusoutput",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
    }
)
PROCESSES = SHELLS | {
    "asyncio.create_subprocess_exec",
    "os.startfile",
    "pexpect.run",
    "pexpect.spawn",
    "pty.spawn",
    "subprocess.Popen",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "subprocess.run",
    *(f"os.exec{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *(f"os.spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    "os.posix_spawn",
    "os.posix_spawnp",
}
UNPICKLERS = frozenset(
    {
        *(
            f"{module}.{function}"
            for module in ("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal")
            for function in ("load", "loads", "Unpickler")
        ),
        "jsonpickle.decode",
        "joblib.load",
        "shelve.open",
        "torch.load",
        "yaml.full_load",
        "yaml.load",
        "yaml.load_all",
        "yaml.unsafe_load",
        "yaml.unsafe_load_all",
        "pandas.read_pickle",
    }
)
DECODERS = frozenset(
    {
        *(
            f"base64.{name}"
            for name in (
                "a85decode",
                "b16decode",
                "b32decode",
                "b64decode",
                "b85decode",
                "decodebytes",
                "decodestring",
                "standard_b64decode",
                "urlsafe_b64decode",
                "z85decode",
            )
        ),
        "binascii.a2b_base64",
        "binascii.a2b_hex",
        "binascii.a2b_uu",
        "binascii.unhexlify",
        "bytes.fromhex",
        "bytearray.fromhex",
        "codecs.decode",
        "bz2.decompress",
        "gzip.decompress",
        "lzma.decompress",
        "zlib.decompress",
        "brotli.decompress",
        "zstandard.decompress",
    }
)
READERS = frozenset({"open", "io.open", "codecs.open", "os.open", "sqlite3.connect", "shutil.copy"})
ENVIRONMENTS = frozenset({"os.environ", "os.environb"})
TOKENS = frozenset({"os.getenv", "os.environ.get", "os.environ.pop", "os.environ.__getitem__"})
# The result of these does not carry the origin of their arguments.
OPAQUE_BUILTINS = frozenset({"len", "isinstance", "hash", "bool", "print", "id", "type", "hasattr"})
WIPERS = frozenset({"shutil.rmtree", "os.removedirs", "send2trash.send2trash"})

NETWORK = (
    "aiohttp",
    "ftplib",
    "http.client",
    "httplib",
    "httpx",
    "imaplib",
    "paramiko",
    "poplib",
    "pycurl",
    "requests",
    "smtplib",
    "socket",
    "socketserver",
    "telnetlib",
    "urllib.request",
    "urllib2",
    "urllib3",
    "websocket",
    "websockets",
    "xmlrpc.client",
)
# Functions that stay on this machine or only convert addresses.
_LOCAL = frozenset({"socket.socketpair", "socket.gethostname", "socket.inet_aton", "socket.ntohs"})
# Methods of a client or connection that send data.
SENDERS = frozenset(
    {
        "connect_ex",
        "delete",
        "execute",
        "get",
        "gethostbyname",
        "head",
        "patch",
        "post",
        "publish",
        "put",
        "request",
        "send",
        "send_bytes",
        "send_message",
        "sendall",
        "sendmail",
        "sendto",
        "stor",
        "storbinary",
        "storlines",
        "stream",
        "urlopen",
        "urlretrieve",
        "Request",
    }
)

# Paths of private keys, tokens and stored logins.
SECRET_PLACE = re.compile(
    r"\.ssh(?:/|\\|$)|\bid_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub)|\.aws[/\\]|\.netrc\b|\.pgpass\b"
    r"|\.git-credentials\b|\.docker[/\\]config\.json|\.kube[/\\]config|\.gnupg\b|/etc/shadow"
    r"|\bLogin Data\b|\bkey4\.db\b|\blogins\.json\b|\bcookies\.sqlite\b|\bwallet\.dat\b"
    r"|[/\\]Local State\b|\bNetwork[/\\]Cookies\b|\.config[/\\]gcloud|\.azure[/\\]|\.pypirc\b"
    r"|Library[/\\]Keychains|\.mozilla[/\\]firefox|Exodus[/\\]exodus\.wallet|\.electrum\b"
    r"|\bcredentials\.json\b.*\.claude|\.claude[/\\]\.credentials|/proc/self/environ"
)
# Names of settings that hold a credential.
SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL|PRIVATE_?KEY|SESSION_?KEY", re.IGNORECASE
)
# Files that run at each login or start, or that open the machine to others.
STARTUP_PLACE = re.compile(
    r"\.(?:bashrc|bash_profile|zshrc|zprofile|profile)\b|\.ssh[/\\]authorized_keys|/etc/sudoers"
    r"|/etc/(?:cron|rc\.local|systemd|ld\.so\.preload|profile)|LaunchAgents|LaunchDaemons"
    r"|\.config[/\\](?:autostart|systemd)|Start Menu[/\\]Programs[/\\]Startup"
    r"|\.claude[/\\]settings|\.cursor[/\\](?:mcp\.json|rules)|\.git[/\\]hooks[/\\]"
    r"|\b(?:sitecustomize|usercustomize)\.py\b"
)


def is_network(path: str | None) -> bool:
    """Return whether a dotted name belongs to a module that reaches other machines."""
    if path is None or path in _LOCAL:
        return False
    return any(f"{path}.".startswith(f"{name}.") for name in NETWORK)
