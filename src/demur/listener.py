"""A listening socket for HTTP, and its URL."""

import os
import socket
from ipaddress import ip_address

from demur.errors import InputError


def bind_listener(host: str, port: int, *, backlog: int, help: str) -> socket.socket:  # noqa: A002 - as errors call it
    """Return a listening socket. Port 0 takes a free port; `help` goes into the error.

    Raises:
        InputError: The address cannot be bound.
    """
    where = f"{f'[{host}]' if ':' in host else host}:{port}"
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(_bind_problem(error), where=where) from error
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise InputError(_bind_problem(error), where=where, help=help) from error
    return listener


def listener_url(listener: socket.socket, path: str = "") -> str:
    """Return the URL of a listener."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback name or address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_ip_address(host: str) -> bool:
    """Return whether a host is an IP address, which DNS cannot point elsewhere."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _bind_problem(error: OSError) -> str:
    return f"cannot listen: {str(error.strerror or error).lower()}"
