"""Hosts that are reached, and what it means to send data to them."""

import fnmatch
import re
from collections.abc import Iterator

from demur.guards.code_execution.call import Sight
from demur.guards.code_execution.value import Taint
from demur.guards.code_execution.verbs.around import Around

__all__ = ["HOST", "hosts_of", "reached", "sent"]

HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/\s]*@)?(\[[^\]]+\]|[A-Za-z0-9_.-]+)")
_METADATA = re.compile(
    r"169\.254\.(?:169\.254|170\.2)|metadata\.google\.internal|100\.100\.100\.200|fd00:ec2"
)
_LOCAL = re.compile(r"(?i)^(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1\]|::1)$")


def hosts_of(texts: list[str]) -> list[str]:
    """Return the hosts that addresses among `texts` name."""
    return [match[1].lower() for text in texts if "://" in text and (match := HOST.match(text))]


def _allowed(host: str, around: Around) -> bool:
    hosts = around.config.hosts
    return hosts is None or any(fnmatch.fnmatchcase(host, pattern) for pattern in hosts)


def _trusted(hosts: list[str], around: Around) -> bool:
    """Whether every host is this machine or one that the settings allow."""
    named = around.config.hosts is not None
    return bool(hosts) and all(
        _LOCAL.match(host) or (named and _allowed(host, around)) for host in hosts
    )


def reached(hosts: list[str], around: Around) -> Iterator[Sight]:
    """Yield the hits for reaching these hosts, whatever data is sent."""
    for host in dict.fromkeys(hosts):
        if _METADATA.search(host):
            yield Sight("METADATA", host)
        elif not _LOCAL.match(host) and not _allowed(host, around):
            yield Sight("HOST_NOT_ALLOWED", host)


def sent(
    taints: frozenset[Taint], hosts: list[str], around: Around, *, data: bool
) -> Iterator[Sight]:
    """Yield the hits for sending data of these origins to these hosts."""
    if _trusted(hosts, around):
        return
    target = hosts[0] if hosts else ""
    if taints & {Taint.SECRET, Taint.ENVIRONMENT}:
        yield Sight("SECRET_SENT", target)
    elif Taint.FILE in taints:
        yield Sight("DATA_SENT", target)
    elif data:
        yield Sight("WORK_SENT", target)
