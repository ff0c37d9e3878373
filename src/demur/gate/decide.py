"""`decide()`: one call on a gate that is opened from settings and cached."""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from demur.errors import InputError
from demur.gate.config import CONFIG_NAME, Config, find_config, load_config, open_gate
from demur.gate.gate import Gate
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord

__all__ = ["close_gates", "decide", "cached_gate"]

_gates: dict[bytes, tuple[object, Gate]] = {}
_lock = Lock()


def decide(
    request: Mapping[str, Any],
    *,
    config: Config | Path | str | None = None,
    findings: Iterable[Finding] = (),
    grants: Iterable[Grant] = (),
    accepted: Iterable[str] = (),
    signals: Mapping[str, Any] | None = None,
    tenant: str | None = None,
) -> DecisionRecord:
    """Return the decision on a request, stored, by the settings in `config`.

    `config` is a `Config` or a settings file; without one, the file that `DEMUR_CONFIG`
    names or `demur.toml` in the working directory. The record also reads as a mapping:
    `record["reason_codes"]` is a list of strings.

    Raises:
        InputError: The request or the settings cannot be used.
        PolicyError: The policy cannot be used.
    """
    return cached_gate(config).decide(
        request,
        findings=findings,
        grants=grants,
        accepted=accepted,
        signals=signals,
        tenant=tenant,
    )


def cached_gate(config: Config | Path | str | None = None) -> Gate:
    """Return the cached gate of some settings; it is reopened when one of its files changes."""
    settings = _resolve_config(config)
    key = msgspec.json.encode(settings, order="deterministic")
    files = (settings.policy, settings.keys, *settings.registries)
    state = [_file_state(path) for path in files if path is not None]
    with _lock:
        known = _gates.get(key)
        if known is not None and known[0] == state:
            return known[1]
        gate = open_gate(settings)
        if known is not None:
            known[1].close()
        _gates[key] = (state, gate)
        return gate


def close_gates() -> None:
    """Close every gate that `decide` opened."""
    with _lock:
        for _, gate in _gates.values():
            gate.close()
        _gates.clear()


def _resolve_config(config: Config | Path | str | None) -> Config:
    if isinstance(config, Config):
        return config
    path = find_config() if config is None else config
    if path is None:
        help_text = f"`demur init` makes a {CONFIG_NAME}, or pass `config=Config(policy=...)`"
        raise InputError("no settings found", help=help_text)
    return _load_cached(str(path), _file_state(str(path)))


@lru_cache(64)
def _load_cached(path: str, state: object) -> Config:
    """Return the settings in a file; `state` makes the cache read a changed file again."""
    del state
    return load_config(path)


def _file_state(path: str) -> object:
    """Return a value that changes when the file does."""
    try:
        # Called for every decision, so avoid the cost of a `Path`.
        facts = os.stat(path)  # noqa: PTH116 - see above
    except (OSError, ValueError):
        return None
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)
