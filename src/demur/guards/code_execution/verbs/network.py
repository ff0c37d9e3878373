"""Programs that move data over the network: what leaves, what arrives, who may connect."""

import re
from collections.abc import Iterator
from itertools import pairwise

from demur.guards.code_execution.call import Call, Options, Sight, options
from demur.guards.code_execution.files import read_rule
from demur.guards.code_execution.names import names
from demur.guards.code_execution.places import canonical
from demur.guards.code_execution.value import Arg, Taint
from demur.guards.code_execution.verbs.addresses import HOST, reached, sent
from demur.guards.code_execution.verbs.around import Around, Judge, Rows

__all__ = ["JUDGES", "ROWS", "sockets"]

_DEV_TCP = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/")
_CURL_VALUED = frozenset(
    {
        "-o",
        "--output",
        "-d",
        "--data",
        "--data-binary",
        "--data-raw",
        "--data-urlencode",
        "--data-ascii",
    }
    | {
        "-F",
        "--form",
        "-T",
        "--upload-file",
        "-H",
        "--header",
        "-X",
        "--request",
        "-u",
        "--user",
        "-A",
    }
    | {"-e", "-b", "-c", "-x", "--proxy", "-m", "--max-time", "-w", "-K", "--retry", "-E", "--cert"}
    | {
        "--key",
        "--cacert",
        "--connect-timeout",
        "-r",
        "-C",
        "--url",
        "--json",
        "--resolve",
        "-Q",
        "-y",
        "-Y",
    }
)
_CURL_DATA = (
    "-d",
    "--data",
    "--data-binary",
    "--data-raw",
    "--data-urlencode",
    "--data-ascii",
    "--json",
)


def _origin(arg: Arg, call: Call, around: Around) -> frozenset[Taint]:
    """Return the origins of a file that is sent."""
    if arg.text == "-":
        return call.stdin.taints
    path = canonical(arg.text, call.cwd)
    if read_rule(path):
        return arg.taints | {Taint.SECRET}
    if path in around.files:
        return arg.taints | around.files[path].taints
    return arg.taints if around.own(arg, call.cwd) else arg.taints | {Taint.FILE}


def _curl(call: Call, around: Around) -> Iterator[Sight]:
    given = options(call.args, _CURL_VALUED)
    addresses = [arg.text for arg in given.operands] + [
        given.values[name].text for name in ("--url",) if name in given.values
    ]
    hosts = [match[1].lower() for text in addresses if (match := HOST.match(text))]
    yield from reached(hosts, around)
    bodies = list(_bodies(given, call, around))
    taints = frozenset().union(*bodies, *(arg.taints & _LEAVING for arg in call.args))
    if bodies or taints:
        yield from sent(taints, hosts, around, data=bool(bodies))


_LEAVING = frozenset({Taint.SECRET, Taint.ENVIRONMENT, Taint.FILE})


def _bodies(given: Options, call: Call, around: Around) -> Iterator[frozenset[Taint]]:
    """Yield the origins of each file or input that a request uploads."""
    for name in _CURL_DATA:
        value = given.values.get(name)
        if value is not None and "@" in value.text[:40]:
            yield _origin(value._replace(text=value.text.rpartition("@")[2] or "-"), call, around)
    for name in ("-F", "--form"):
        value = given.values.get(name)
        if value is not None and re.search(r"=[@<]", value.text):
            file = re.split(r"=[@<]", value.text, maxsplit=1)[1].partition(";")[0]
            yield _origin(value._replace(text=file), call, around)
    for name in ("-T", "--upload-file"):
        if name in given.values:
            yield _origin(given.values[name], call, around)


def _wget(call: Call, around: Around) -> Iterator[Sight]:
    given = options(
        call.args, frozenset({"-O", "-o", "-P", "-i", "-U", "-t", "-T", "-e", "--header"})
    )
    hosts = [match[1].lower() for arg in given.operands if (match := HOST.match(arg.text))]
    yield from reached(hosts, around)
    for name in ("--post-file", "--body-file"):
        if name in given.values:
            yield from sent(_origin(given.values[name], call, around), hosts, around, data=True)
    leaving = frozenset().union(*(arg.taints & _LEAVING for arg in call.args))
    if leaving:
        yield from sent(leaving, hosts, around, data=False)


def _netcat(call: Call, around: Around) -> Iterator[Sight]:
    given = options(
        call.args,
        frozenset({"-p", "-s", "-w", "-e", "-c", "-i", "-q", "-X", "-x", "--exec", "--sh-exec"}),
    )
    hosts = [arg.text.lower() for arg in given.operands[:1] if not arg.text.isdigit()]
    yield from reached(hosts, around)
    if given.any("-e", "-c", "--exec", "--sh-exec") and (
        "-e" in given.values
        or "-c" in given.values
        or "--exec" in given.values
        or "--sh-exec" in given.values
    ):
        yield Sight("REVERSE_SHELL", hosts[0] if hosts else "")
    elif hosts and (call.piped or call.reads):
        yield from sent(
            call.stdin.taints, hosts, around, data=bool(call.stdin.taints or call.reads)
        )


def _socat(call: Call, around: Around) -> Iterator[Sight]:
    text = " ".join(call.texts)
    hosts = re.findall(r"(?i)(?:tcp[46]?|udp|openssl|ssl)(?:-connect)?:([^:,\s]+):", text)
    yield from reached([host.lower() for host in hosts], around)
    shell = re.search(r"(?i)\b(?:exec|system):\S*(?:sh|bash|cmd|powershell|python)", text)
    if shell and re.search(r"(?i)tcp|udp|openssl|ssl|vsock", text):
        yield Sight("REVERSE_SHELL", hosts[0] if hosts else "")


def _copy(call: Call, around: Around) -> Iterator[Sight]:
    """`scp`, `rsync`, `sftp`: local files to a remote place."""
    operands = options(
        call.args, frozenset({"-i", "-P", "-F", "-o", "-e", "-J", "-l", "-b", "-pw"})
    ).operands
    if not operands:
        return
    remote = [
        arg
        for arg in operands
        if re.match(r"[^/]+:|rsync://", arg.text) and not re.match(r"[A-Za-z]:[\\/]", arg.text)
    ]
    hosts = [re.sub(r"^.*@|^\w+://", "", arg.text).partition(":")[0].lower() for arg in remote]
    yield from reached(hosts, around)
    if operands[-1] in remote:
        taints = frozenset().union(
            *(_origin(arg, call, around) for arg in operands[:-1] if arg not in remote)
        )
        yield from sent(
            taints - ({Taint.FILE} if Taint.SECRET not in taints else set()),
            hosts,
            around,
            data=True,
        )


def _lookup(call: Call, around: Around) -> Iterator[Sight]:
    """`dig`, `ping`: data hidden in a host name."""
    taints = (
        frozenset().union(*(arg.taints & _LEAVING for arg in call.args))
        if call.args
        else frozenset()
    )
    if taints:
        yield from sent(taints, [], around, data=False)


def _mail(call: Call, around: Around) -> Iterator[Sight]:
    addresses = [arg.text for arg in call.args if "@" in arg.text]
    if addresses and (call.piped or call.reads or call.has("-a", "-A")):
        yield from sent(call.stdin.taints, [addresses[0].partition("@")[2]], around, data=True)


def _cloud_copy(call: Call, around: Around) -> Iterator[Sight]:
    """`aws s3 cp FILE s3://bucket`, `gsutil cp`, `rclone copy`."""
    operands = options(call.args).operands
    for source, target in pairwise(operands):
        if "://" in target.text and "://" not in source.text and not source.text.isalpha():
            yield from sent(_origin(source, call, around), [target.text], around, data=True)


_SSH_VALUED = frozenset(names("-i -p -l -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w -B"))


def _ssh(call: Call, around: Around) -> Iterator[Sight]:
    operands = options(
        call.args,
        _SSH_VALUED,
    ).operands
    hosts = [operands[0].text.rpartition("@")[2].lower()] if operands else []
    yield from reached(hosts, around)
    if any(re.match(r"-[A-Za-z]*[RD]$|-[RD]\d", text) for text in call.texts):
        yield Sight("TUNNEL", hosts[0] if hosts else "")
    if call.stdin.taints & {Taint.SECRET, Taint.ENVIRONMENT, Taint.FILE}:
        yield from sent(call.stdin.taints, hosts, around, data=True)
    if any("ProxyCommand=" in text for text in call.texts):
        yield Sight("PROXY_EXECUTION", "ProxyCommand")


def sockets(call: Call) -> Iterator[Sight]:
    """Yield the hits for redirections to `/dev/tcp`; with a shell it is a reverse shell."""
    places = [*(write.target for write in call.writes), *call.reads]
    for target in places:
        if match := _DEV_TCP.match(target.text):
            if call.verb in _TALKERS or call.stdin.taints & _LEAVING:
                yield Sight("REVERSE_SHELL" if call.verb in _TALKERS else "SECRET_SENT", match[1])
            else:
                yield Sight("TUNNEL", match[1])


_TALKERS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "exec", "python", "python3", "perl"})

ROWS: Rows = {
    **dict.fromkeys(
        ("python", "python3"),
        (("TUNNEL", r"^-m (?:http\.server|SimpleHTTPServer|pyftpdlib|uploadserver)"),),
    ),
    "tor": (("TUNNEL", r""),),
    "telnet": (("TUNNEL", r"\S+ \d+.*"),),
    "ngrok": (("TUNNEL", r"^(?:tcp|http|tls|start)"),),
    "cloudflared": (("TUNNEL", r"^tunnel\b.*(?:--url|run)"),),
    "devtunnel": (("TUNNEL", r"^host"),),
    "code": (("TUNNEL", r"^tunnel"),),
    "chisel": (("TUNNEL", r"^(?:client|server)"),),
    "localtunnel": (("TUNNEL", r""),),
    "lt": (("TUNNEL", r"--port"),),
    "bore": (("TUNNEL", r"^local"),),
    "pip": (
        (
            "INSTALL_FROM_URL",
            r"install .*(?:http://|https?://\S+\.(?:zip|tar|whl|tgz)|--index-url[ =]http://|--trusted-host)",
        ),
        ("INSTALL_FROM_GIT", r"install .*(?:git\+|https?://|--extra-index-url|--index-url)"),
    ),
    "npm": (
        ("INSTALL_FROM_URL", r"(?:i|install|add) .*(?:http://|https?://\S+\.t(?:ar\.)?gz)"),
        ("INSTALL_FROM_GIT", r"(?:i|install|add) .*(?:git\+|https?://|github:)"),
    ),
    "gem": (("INSTALL_FROM_URL", r"install .*(?:--source|-s)[ =]http://"),),
    "go": (("INSTALL_FROM_URL", r"-insecure"),),
}
ROWS["pip3"] = ROWS["pipx"] = ROWS["uv"] = ROWS["pip"]
ROWS["yarn"] = ROWS["pnpm"] = ROWS["npx"] = ROWS["npm"]
JUDGES: dict[str, tuple[Judge, ...]] = {
    "curl": (_curl,),
    "nscurl": (_curl,),
    "wget": (_wget,),
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.traditional", "nc.openbsd"), (_netcat,)),
    "socat": (_socat,),
    **dict.fromkeys(("scp", "rsync", "sftp", "pscp"), (_copy,)),
    **dict.fromkeys(("dig", "nslookup", "host", "ping", "whois"), (_lookup,)),
    **dict.fromkeys(("mail", "mailx", "mutt", "sendmail"), (_mail,)),
    **dict.fromkeys(("aws", "gsutil", "rclone", "az", "gcloud"), (_cloud_copy,)),
    "ssh": (_ssh,),
}
