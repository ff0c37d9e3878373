"""The settings of the service: addresses, limits and timeouts."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from demur.errors import InputError
from demur.source.mismatch import describe_mismatch

_Positive = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
_NotNegative = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
_Host = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[service]` part of the settings file.

    `hosts` are the names that callers may use for this service, besides loopback ones, the
    one it listens on, and bare addresses. `rate` requests a second are admitted for each key,
    `burst` at once. Within `budget_window_s`, the calls of a key may hold `budget_bytes` and take
    `budget_cpu_s` of processor time. `work_processes` do heavy work for each worker. `runs` is the
    folder whose runs of evals the dashboard shows.
    """

    host: _Host = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8642
    hosts: tuple[_Host, ...] = ()
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
    budget_window_s: _Positive = 10.0
    budget_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**50)] = 128 << 20
    budget_cpu_s: _Positive = 8.0
    work_processes: Annotated[int, msgspec.Meta(ge=0, le=64)] = 1
    most_connections: _Count = 20_000
    key_memory_s: Annotated[float, msgspec.Meta(ge=0.2, le=3600)] = 2.0
    runs: Annotated[str, msgspec.Meta(max_length=4096, pattern="^[^\\x00]*$")] = "runs"


def read_settings(table: Mapping[str, Any], **overrides: Any) -> ServiceSettings:
    """Return the settings in a table; overrides that are not None win.

    Raises:
        InputError: A setting is unknown or invalid.
    """
    chosen = {name: value for name, value in overrides.items() if value is not None}
    try:
        return msgspec.convert({**table, **chosen}, ServiceSettings)
    except msgspec.ValidationError as error:
        found = describe_mismatch(error, ServiceSettings)
        where = f"service.{found.where}" if found.where else "service"
        raise InputError(found.problem, where=where, help=found.help) from error
