"""The settings of the service: addresses, limits and timeouts."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any

import msgspec

from demur.errors import InputError
from demur.source.mismatch import describe_mismatch

_Positive = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
_NotNegative = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
_Host = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_TraceAddress = Annotated[str, msgspec.Meta(pattern=r"^$|^https?://[^\s]*\{trace_id\}[^\s]*$")]
_Place = Annotated[str, msgspec.Meta(max_length=4096, pattern="^[^\\x00]*$")]


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[service]` part of the settings file.

    `hosts` are the names that callers may use for this service, besides loopback ones, the
    one it listens on, and bare addresses. `behind_tls` says that callers reach it over TLS only;
    `proxies` are addresses of proxies whose word on that counts. `rate` requests a second are
    admitted for each key, `burst` at once; `limiter` is a Redis that counts them for all services
    on one database. Within `budget_window_s`, the calls of a key may hold
    `budget_bytes` and take `budget_cpu_s` of processor time. `work_processes` do heavy work for
    each worker. `access_log` writes a line of JSON for each call to the standard error.
    `trace_url` is the address of a trace, with `{trace_id}` in it. New keys expire after
    `key_days`. `runs` is the folder whose runs of evals the dashboard shows. Every
    `anchor_every_s`, the heads of the chains are signed with the key in the file `anchor_key`
    and go to `anchor`, a file or a URL.
    """

    host: _Host = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8642
    hosts: tuple[_Host, ...] = ()
    behind_tls: bool = False
    proxies: tuple[_Host, ...] = ()
    workers: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    largest_body: _Count = 1 << 20
    largest_log: _Count = 64 << 20
    timeout_s: _Positive = 10.0
    body_timeout_s: _Positive = 10.0
    stream_timeout_s: _Positive = 600.0
    head_timeout_s: _Positive = 10.0
    keep_alive_s: _Positive = 30.0
    drain_s: _NotNegative = 1.0
    grace_s: _Positive = 10.0
    rate: _Count = 1000
    burst: _Count = 5000
    limiter: _Place = ""
    budget_window_s: _Positive = 10.0
    budget_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**50)] = 128 << 20
    budget_cpu_s: _Positive = 8.0
    work_processes: Annotated[int, msgspec.Meta(ge=0, le=64)] = 1
    most_connections: _Count = 20_000
    access_log: bool = False
    trace_url: _TraceAddress = ""
    key_days: Annotated[float, msgspec.Meta(gt=0, le=36_500)] = 90.0
    key_memory_s: Annotated[float, msgspec.Meta(ge=0.2, le=3600)] = 1.0
    runs: _Place = "runs"
    anchor: _Place = ""
    anchor_key: _Place = ""
    anchor_every_s: Annotated[float, msgspec.Meta(ge=1, le=10**7)] = 3600.0


def read_settings(table: Mapping[str, Any], **overrides: Any) -> ServiceSettings:
    """Return the settings in a table; overrides that are not None win.

    Raises:
        InputError: A setting is unknown or invalid.
    """
    chosen = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = msgspec.convert({**table, **chosen}, ServiceSettings)
    except msgspec.ValidationError as error:
        found = describe_mismatch(error, ServiceSettings)
        where = f"service.{found.where}" if found.where else "service"
        raise InputError(found.problem, where=where, help=found.help) from error
    parse_networks(settings.proxies)
    if settings.anchor and not settings.anchor_key:
        help_text = "name the signing key, as `demur grant keygen` writes it"
        raise InputError("anchors are signed", where="service.anchor_key", help=help_text)
    return settings


def parse_networks(addresses: Iterable[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return addresses and networks of proxies.

    Raises:
        InputError: A text is neither.
    """
    networks = []
    for address in addresses:
        try:
            networks.append(ip_network(address))
        except ValueError:
            help_text = "an address like 10.0.0.5, or a network like 10.0.0.0/24"
            problem = f"`{address}` is no address"
            raise InputError(problem, where="service.proxies", help=help_text) from None
    return tuple(networks)
