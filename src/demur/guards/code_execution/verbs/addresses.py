"""Hosts that are reached, and what it means to send data to them."""

import fnmatch
import re
from collections.abc import Iterator

from demur.guards.code_execution.call import CommandHit
from demur.guards.code_execution.value import Taint
from demur.guards.code_execution.verbs.around import CommandContext

__all__ = ["HOST_PATTERN", "find_hosts", "check_hosts", "check_sent_data"]

HOST_PATTERN = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/\s]*@)?(\[[^\]]+\]|[A-Za-z0-9_.-]+)")
_METADATA = re.compile(
    r"169\.254\.(?:169\.254|170\.2)|metadata\.google\.internal|100\.100\.100\.200|fd00:ec2"
)
_LOCAL = re.compile(r"(?i)^(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1\]|::1)$")


def find_hosts(texts: list[str]) -> list[str]:
    """Return the hosts that addresses among `texts` name."""
    return [
        match[1].lower() for text in texts if "://" in text and (match := HOST_PATTERN.match(text))
    ]


def _is_allowed_host(host: str, context: CommandContext) -> bool:
    hosts = context.config.hosts
    return hosts is None or any(fnmatch.fnmatchcase(host, pattern) for pattern in hosts)


def _are_trusted_hosts(hosts: list[str], context: CommandContext) -> bool:
    """Whether every host is this machine or one that the settings allow."""
    named = context.config.hosts is not None
    return bool(hosts) and all(
        _LOCAL.match(host) or (named and _is_allowed_host(host, context)) for host in hosts
    )


def check_hosts(hosts: list[str], context: CommandContext) -> Iterator[CommandHit]:
    """Yield the hits for reaching these hosts, whatever data is sent."""
    for host in dict.fromkeys(hosts):
        if _METADATA.search(host):
            yield CommandHit("METADATA", host)
        elif not _LOCAL.match(host) and not _is_allowed_host(host, context):
            yield CommandHit("HOST_NOT_ALLOWED", host)


def check_sent_data(
    taints: frozenset[Taint], hosts: list[str], context: CommandContext, *, data: bool
) -> Iterator[CommandHit]:
    """Yield the hits for sending data of these origins to these hosts."""
    if _are_trusted_hosts(hosts, context):
        return
    target = hosts[0] if hosts else ""
    if taints & {Taint.SECRET, Taint.ENVIRONMENT}:
        yield CommandHit("SECRET_SENT", target)
    elif Taint.FILE in taints:
        yield CommandHit("DATA_SENT", target)
    elif data:
        yield CommandHit("WORK_SENT", target)
