"""Programs that move data over the network: the data they send or fetch, the hosts they reach."""

import fnmatch
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from demur.guards.code_execution.call import (
    Arg,
    CommandHit,
    ParsedOptions,
    ProgramCall,
    Taint,
    parse_options,
    program_name,
)
from demur.guards.code_execution.context import CommandCheck, CommandContext
from demur.guards.code_execution.paths import canonical_path, read_rule
from demur.guards.static.source_text import split_names, word_set

HOST_PATTERN = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/\s]*@)?(\[[^\]]+\]|[A-Za-z0-9_.-]+)")
_METADATA = re.compile(
    r"169\.254\.(?:169\.254|170\.2)|metadata\.google\.internal|100\.100\.100\.200|fd00:ec2"
)
_LOCAL = re.compile(r"(?i)^(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1\]|::1)$")


def find_hosts(texts: list[str]) -> list[str]:
    """Return the hosts that addresses among `texts` name."""
    return _hosts_in(text for text in texts if "://" in text)


def _hosts_in(addresses: Iterable[str]) -> list[str]:
    return [found[1].lower() for text in addresses if (found := HOST_PATTERN.match(text))]


def _allows_host(host: str, context: CommandContext) -> bool:
    hosts = context.config.hosts
    return hosts is None or any(fnmatch.fnmatchcase(host, pattern) for pattern in hosts)


def _are_trusted_hosts(hosts: list[str], context: CommandContext) -> bool:
    """Whether every host is this machine or one that the settings allow."""
    named = context.config.hosts is not None
    trusted = (_LOCAL.match(host) or (named and _allows_host(host, context)) for host in hosts)
    return bool(hosts) and all(trusted)


def check_hosts(hosts: list[str], context: CommandContext) -> Iterator[CommandHit]:
    """Yield the hits for reaching these hosts, whatever data is sent."""
    for host in dict.fromkeys(hosts):
        if _METADATA.search(host):
            yield CommandHit("METADATA", host)
        elif not _LOCAL.match(host) and not _allows_host(host, context):
            yield CommandHit("HOST_NOT_ALLOWED", host)


PRIVATE_TAINTS = frozenset({Taint.SECRET, Taint.ENVIRONMENT, Taint.VARIABLE})


def check_sent_data(
    taints: frozenset[Taint], hosts: list[str], context: CommandContext, *, data: bool
) -> Iterator[CommandHit]:
    """Yield the hits for sending data of these origins to these hosts."""
    if _are_trusted_hosts(hosts, context):
        return
    target = hosts[0] if hosts else ""
    if taints & PRIVATE_TAINTS:
        yield CommandHit("SECRET_SENT", target)
    elif Taint.FILE in taints:
        yield CommandHit("DATA_SENT", target)
    elif data:
        yield CommandHit("WORK_SENT", target)


_LEAVING = PRIVATE_TAINTS | {Taint.FILE}
_REMOTE = re.compile(r"(?![A-Za-z]:[\\/])(?:[^/]+:|rsync://)")
_DEV_TCP = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/")
_CURL_VALUED = word_set(
    "-o --output -d --data --data-binary --data-raw --data-urlencode --data-ascii -F --form"
    " -T --upload-file -H --header -X --request -u --user -A -e -b -c -x --proxy -m --max-time"
    " -w -K --retry -E --cert --key --cacert --connect-timeout -r -C --url --json --resolve -Q"
    " -y -Y"
)
_CURL_DATA = split_names("-d --data --data-binary --data-raw --data-urlencode --data-ascii --json")
_WGET_VALUED = word_set("-O -o -P -i -U -t -T -e --header")
_NETCAT_VALUED = word_set("-p -s -w -e -c -i -q -X -x --exec --sh-exec")
_COPY_VALUED = word_set("-i -P -F -o -e -J -l -b -pw")


def _file_origins(arg: Arg, call: ProgramCall, context: CommandContext) -> frozenset[Taint]:
    """Return the origins of a file that is sent."""
    if arg.text == "-":
        return call.stdin.taints
    path = canonical_path(arg.text, call.cwd)
    if read_rule(path):
        return arg.taints | {Taint.SECRET}
    if path in context.files:
        return arg.taints | context.files[path].taints
    return arg.taints if context.is_own_path(arg, call.cwd) else arg.taints | {Taint.FILE}


def _check_curl(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    options = parse_options(call.args, _CURL_VALUED)
    url = options.values.get("--url")
    hosts = _hosts_in(arg.text for arg in (*options.operands, *([url] if url else [])))
    yield from check_hosts(hosts, context)
    bodies = list(_upload_origins(options, call, context))
    taints = frozenset().union(*bodies, *(arg.taints & _LEAVING for arg in call.args))
    if bodies or taints:
        yield from check_sent_data(taints, hosts, context, data=bool(bodies))


def _upload_origins(
    options: ParsedOptions, call: ProgramCall, context: CommandContext
) -> Iterator[frozenset[Taint]]:
    """Yield the origins of each file or input that a request uploads."""
    for name in _CURL_DATA:
        value = options.values.get(name)
        if value is not None and "@" in value.text[:40]:
            file = value.text.rpartition("@")[2] or "-"
            yield _file_origins(value._replace(text=file), call, context)
    for name in ("-F", "--form"):
        value = options.values.get(name)
        if value is not None and re.search(r"=[@<]", value.text):
            file = re.split(r"=[@<]", value.text, maxsplit=1)[1].partition(";")[0]
            yield _file_origins(value._replace(text=file), call, context)
    for name in ("-T", "--upload-file"):
        if name in options.values:
            yield _file_origins(options.values[name], call, context)


def _check_wget(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    options = parse_options(call.args, _WGET_VALUED)
    hosts = _hosts_in(arg.text for arg in options.operands)
    yield from check_hosts(hosts, context)
    for name in ("--post-file", "--body-file"):
        if name in options.values:
            taints = _file_origins(options.values[name], call, context)
            yield from check_sent_data(taints, hosts, context, data=True)
    yield from _check_arguments(call, hosts, context)


def _check_arguments(
    call: ProgramCall, hosts: list[str], context: CommandContext
) -> Iterator[CommandHit]:
    """Yield the hits for data that leaves as part of an argument."""
    if taints := frozenset().union(*(arg.taints & _LEAVING for arg in call.args)):
        yield from check_sent_data(taints, hosts, context, data=False)


def _check_netcat(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    options = parse_options(call.args, _NETCAT_VALUED)
    hosts = [arg.text.lower() for arg in options.operands[:1] if not arg.text.isdigit()]
    yield from check_hosts(hosts, context)
    if not options.values.keys().isdisjoint(("-e", "-c", "--exec", "--sh-exec")):
        yield CommandHit("REVERSE_SHELL", hosts[0] if hosts else "")
    elif hosts and (call.piped or call.reads):
        taints = call.stdin.taints
        yield from check_sent_data(taints, hosts, context, data=bool(taints or call.reads))


def _check_socat(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    text = " ".join(call.texts)
    hosts = re.findall(r"(?i)(?:tcp[46]?|udp|openssl|ssl)(?:-connect)?:([^:,\s]+):", text)
    yield from check_hosts([host.lower() for host in hosts], context)
    shell = re.search(r"(?i)\b(?:exec|system):\S*(?:sh|bash|cmd|powershell|python)", text)
    if shell and re.search(r"(?i)tcp|udp|openssl|ssl|vsock", text):
        yield CommandHit("REVERSE_SHELL", hosts[0] if hosts else "")


def _check_copy(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """`scp`, `rsync`, `sftp`: local files to a remote place."""
    operands = parse_options(call.args, _COPY_VALUED).operands
    remote = [arg for arg in operands if _REMOTE.match(arg.text)]
    hosts = [re.sub(r"^.*@|^\w+://", "", arg.text).partition(":")[0].lower() for arg in remote]
    yield from check_hosts(hosts, context)
    if operands and operands[-1] in remote:
        files = (arg for arg in operands[:-1] if arg not in remote)
        taints = frozenset().union(*(_file_origins(file, call, context) for file in files))
        # Copying a file is what these programs are for; only a secret is worth more than a note.
        yield from check_sent_data(taints - {Taint.FILE}, hosts, context, data=True)


def _check_lookup(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """`dig`, `ping`: data hidden in a host name."""
    yield from _check_arguments(call, [], context)


def _check_mail(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    addresses = [arg.text for arg in call.args if "@" in arg.text]
    if addresses and (call.piped or call.reads or call.has_arg("-a", "-A")):
        hosts = [addresses[0].partition("@")[2]]
        yield from check_sent_data(call.stdin.taints, hosts, context, data=True)


def _check_cloud_copy(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """`aws s3 cp FILE s3://bucket`, `gsutil cp`, `rclone copy`."""
    operands = parse_options(call.args).operands
    for source, target in pairwise(operands):
        if "://" in target.text and "://" not in source.text and not source.text.isalpha():
            taints = _file_origins(source, call, context)
            yield from check_sent_data(taints, [target.text], context, data=True)


_SSH_VALUED = word_set("-i -p -l -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w -B")


def _check_ssh(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    operands = parse_options(call.args, _SSH_VALUED).operands
    hosts = [operands[0].text.rpartition("@")[2].lower()] if operands else []
    yield from check_hosts(hosts, context)
    if any(re.match(r"-[A-Za-z]*[RD]$|-[RD]\d", text) for text in call.texts):
        yield CommandHit("TUNNEL", hosts[0] if hosts else "")
    if call.stdin.taints & _LEAVING:
        yield from check_sent_data(call.stdin.taints, hosts, context, data=True)


def check_sockets(call: ProgramCall) -> Iterator[CommandHit]:
    """Yield the hits for redirections to `/dev/tcp`; with a shell it is a reverse shell."""
    for target in (*(write.target for write in call.writes), *call.reads):
        if match := _DEV_TCP.match(target.text):
            rule = "SECRET_SENT" if call.stdin.taints & _LEAVING else "TUNNEL"
            programs = {call.verb, *map(program_name, call.texts[:4])}
            yield CommandHit("REVERSE_SHELL" if programs & _TALKERS else rule, match[1])


def _check_shell_input(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    """Yield a hit if the output of a shell goes to another machine."""
    if Taint.SHELL in call.stdin.taints:
        yield CommandHit("REVERSE_SHELL", call.verb)


_TALKERS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "exec", "python", "python3", "perl"})

NETWORK_CHECKS: dict[str, tuple[CommandCheck, ...]] = {
    **dict.fromkeys(("curl", "nscurl"), (_check_curl,)),
    "wget": (_check_wget,),
    **dict.fromkeys(
        split_names("nc ncat netcat nc.traditional nc.openbsd cryptcat sbd pwncat rustcat"),
        (_check_netcat, _check_shell_input),
    ),
    "socat": (_check_socat, _check_shell_input),
    **dict.fromkeys(("telnet", "openssl", "websocat"), (_check_shell_input,)),
    **dict.fromkeys(("scp", "rsync", "sftp", "pscp"), (_check_copy,)),
    **dict.fromkeys(("dig", "nslookup", "host", "ping", "whois"), (_check_lookup,)),
    **dict.fromkeys(("mail", "mailx", "mutt", "sendmail"), (_check_mail,)),
    **dict.fromkeys(("aws", "gsutil", "rclone", "az", "gcloud"), (_check_cloud_copy,)),
    "ssh": (_check_ssh, _check_shell_input),
}
