"""The operator's settings (`demur.toml`, or the same as arguments), and `decide()` on top of them.

`decide()` opens the gate that the settings describe once, and again when one of its files changes.
"""

import logging
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal
from urllib.parse import unquote

import msgspec

from demur.codes.loading import check_pin, default_registry
from demur.errors import InputError, error_reason
from demur.gate.approvals import ApprovalSettings
from demur.gate.excerpt import ExcerptMode
from demur.gate.gate import DEFAULT_MAX_ATTEMPTS, Gate, Sink
from demur.gate.guard_settings import GuardSettings, read_guard_settings, resolve_guard_paths
from demur.gate.people import (
    PeopleSettings,
    load_issuers,
    resolve_people_paths,
)
from demur.gate.redaction import find_profile
from demur.grants.keys import load_trusted_keys
from demur.grants.revocations import RevocationFile
from demur.memory.recall import MemorySettings
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.policy.loader import AGENT_POLICY, load_policy
from demur.policy.policy import Mode, Policy
from demur.source.item import did_you_mean
from demur.source.mismatch import describe_mismatch
from demur.store.opening import DEFAULT_DEADLINE_S, DryRunStore, open_store
from demur.store.spool import Spool
from demur.store.sqlite_connections import MEMORY
from demur.store.store import Store

CONFIG_NAME = "demur.toml"
STORE_NAME = "demur.db"
_VARIABLE = "DEMUR_CONFIG"
_SQLITE = "sqlite:///"
_log = logging.getLogger("demur")
# Root and this user; Windows says 0 for every file.
_TRUSTED_OWNERS = {0, os.getuid()} if hasattr(os, "getuid") else {0}


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that makes a gate. Paths are relative to the working directory.

    `store` is a path or a URL (`sqlite:///...`, `postgresql://...`); empty means that
    decisions are not stored. `durability` is `full` (survives a power loss) or `normal`
    (survives a crash of the process). `registry` pins versions of registries, like `1.2`.
    `guards` holds the settings of guards, `people` those of people who log in, `service` those of
    the HTTP service. `approvals` says how long requests wait for a person.
    """

    policy: str = "policy.yaml"
    store: str = STORE_NAME
    durability: Literal["full", "normal"] = "full"
    deadline_s: Annotated[float, msgspec.Meta(gt=0)] = DEFAULT_DEADLINE_S
    mode: Mode | None = None
    redaction: str = "default"
    redact_paths: tuple[str, ...] = ()
    excerpts: ExcerptMode = "off"
    registry: str | None = None
    registries: tuple[str, ...] = ()
    keys: str | None = None
    revoked: tuple[str, ...] = ()
    revocations: str | None = None
    attempts: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_MAX_ATTEMPTS
    spool: str | None = None
    memory: MemorySettings | None = MemorySettings()
    guards: GuardSettings = GuardSettings()
    people: PeopleSettings = PeopleSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    service: dict[str, Any] = {}


def find_config(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the settings file that `DEMUR_CONFIG` names, or else the nearest `demur.toml`.

    The search goes from the working directory upwards, as git's does. It ends at the home folder
    or where another file system begins, and leaves out files that another user owns.
    """
    named = (os.environ if environment is None else environment).get(_VARIABLE)
    return Path(named) if named else _find_upwards(CONFIG_NAME)


def find_settings() -> Path | None:
    """Return the settings file, or else the nearest store, for `load_config`."""
    return find_config() or _find_upwards(STORE_NAME)


def _find_upwards(name: str) -> Path | None:
    if Path(name).is_file():
        return Path(name)
    above = (folder / name for folder in _list_parents())
    return next(filter(_is_trusted_file, above), None)


def _list_parents() -> Iterator[Path]:
    """Yield the folders above the working directory, up to home or the end of its file system."""
    try:
        here, home = Path.cwd(), Path("~").expanduser()
        device = here.stat().st_dev
        for folder in here.parents if here != home else ():
            if folder.stat().st_dev != device:
                return
            yield folder
            if folder == home:
                return
    except (OSError, RuntimeError):
        # The working directory was deleted, or nobody knows the home folder.
        return


def _is_trusted_file(path: Path) -> bool:
    """Return whether a file exists, and is owned by this user or by root."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return path.is_file() and owner in _TRUSTED_OWNERS


def default_config(store: Path | str = STORE_NAME) -> Config:
    """Return the settings without a settings file: the policy for agents, and a store."""
    return Config(policy=str(AGENT_POLICY), store=str(store))


def load_config(path: Path | str) -> Config:
    """Return the settings in a file; its paths are relative to the file.

    The file may also be a store (`*.db`): then the default settings apply.

    Raises:
        InputError: It is unreadable, or a setting is unknown or invalid.
    """
    where = str(path)
    if where.endswith(".db") and Path(path).is_file():
        return default_config(path)
    try:
        raw = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        guards = read_guard_settings(raw.pop("guards", {}), f"{where}: guards")
        config = msgspec.convert({**raw, **_read_memory_setting(raw, where)}, Config)
    except OSError as error:
        raise InputError(f"cannot read the settings: {error_reason(error)}", where=where) from error
    except msgspec.ValidationError as error:
        found = describe_mismatch(error, Config)
        problem = found.problem.replace("unknown field", "unknown setting")
        place = f"{where}: {found.where}" if found.where else where
        raise InputError(problem, where=place, help=found.help) from error
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        # Also raised for numbers and nesting that the parser does not accept.
        raise InputError(f"not TOML: {error}", where=where) from error
    config = _resolve_paths(msgspec.structs.replace(config, guards=guards), Path(path).parent)
    _check_registry_pin(config, f"{where}: registry")
    return config


def _check_registry_pin(config: Config, where: str) -> None:
    if config.registry is None:
        return
    try:
        check_pin(default_registry(*config.registries), config.registry)
    except InputError as error:
        raise InputError(error.problem, where=where, help=error.help) from error


def _read_memory_setting(raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the memory setting of a file; TOML has no null, so `false` turns memory off."""
    memory = raw.get("memory")
    if memory is False:
        return {"memory": None}
    # Unknown settings are accepted in records of other versions, but not in a settings file.
    known = MemorySettings.__struct_fields__
    unknown = [name for name in memory if name not in known] if isinstance(memory, dict) else []
    if unknown:
        raise _unknown_setting(unknown[0], MemorySettings, f"{where}: memory")
    return {}


def _unknown_setting(name: str, settings: type[msgspec.Struct], where: str) -> InputError:
    """Return the error on an unknown setting, with the name that was probably meant."""
    fields = settings.__struct_fields__
    meant = did_you_mean(name, fields) or f"one of {', '.join(fields)}"
    return InputError(f"unknown setting `{name}`", where=where, help=meant)


_SERVICE_PATHS = ("runs", "anchor", "anchor_key")


def _resolve_paths(config: Config, folder: Path) -> Config:
    """Return the settings with paths resolved against `folder`."""

    def place(path: str) -> str:
        scheme = _SQLITE if path.startswith(_SQLITE) else ""
        bare = path.removeprefix(scheme)
        is_file = bare and "://" not in bare and bare != MEMORY
        return f"{scheme}{folder / bare}" if is_file else path

    return msgspec.structs.replace(
        config,
        policy=place(config.policy),
        store=place(config.store),
        registries=tuple(place(path) for path in config.registries),
        keys=None if config.keys is None else place(config.keys),
        revocations=None if config.revocations is None else place(config.revocations),
        spool=None if config.spool is None else place(config.spool),
        guards=resolve_guard_paths(config.guards, folder),
        people=resolve_people_paths(config.people, place),
        service={
            name: place(value) if name in _SERVICE_PATHS and isinstance(value, str) else value
            for name, value in config.service.items()
        },
    )


def open_gate(
    config: Config,
    *,
    policy: Policy | None = None,
    store: Store | None = None,
    sinks: tuple[Sink, ...] = (),
    **more: Any,
) -> Gate:
    """Return the gate that the settings describe. Close it when done.

    `policy` and `store` replace those of the settings. A store that cannot be reached now is no
    error: the gate abstains with STORAGE_UNAVAILABLE until it can be.

    Raises:
        InputError: A setting is invalid.
        PolicyError: The policy is invalid.
        StorageError: The store is a folder, no database, or newer than this demur.
    """
    _check_registry_pin(config, "registry")
    registry = default_registry(*config.registries)
    settings: dict[str, Any] = {
        "registry": registry,
        "mode": config.mode,
        "redaction": find_profile(config.redaction, config.redact_paths),
        "excerpts": config.excerpts,
        "memory": config.memory,
        "keys": load_trusted_keys(config.keys),
        "issuers": load_issuers(config.people),
        "revoked": config.revoked,
        "revocations": RevocationFile(config.revocations) if config.revocations else None,
        "approvals": config.approvals,
        "attempts": config.attempts,
        "sinks": sinks,
        "spool": open_configured_spool(config),
        **more,
    }
    chosen = load_policy(config.policy, registry=registry) if policy is None else policy
    _log_spool_limits(config)
    # Open the store last, so that nothing stays open if a setting is wrong.
    store = open_configured_store(config, defer=True) if store is None else store
    try:
        return Gate(chosen, store, **settings)
    except BaseException:
        if store is not None:
            store.close()
        raise


def open_configured_store(config: Config, *, defer: bool = False) -> Store | None:
    """Return the store that the settings name, or None if they name none.

    With `defer`, a database that cannot be reached now is opened at its next use.

    Raises:
        InputError: The setting has an unknown scheme.
        StorageError: demur cannot open the store.
    """
    settings: dict[str, Any] = {"durability": config.durability, "deadline_s": config.deadline_s}
    return open_store(config.store, defer=defer, **settings) if config.store else None


def open_dry_run_gate(config: Config) -> Gate:
    """Return a gate that decides by the settings and memory, and neither stores nor spools."""
    path = database_path(config)
    store = config.store if path is None or path.exists() else ""
    gate = open_gate(msgspec.structs.replace(config, spool="", store=store))
    if gate.store is not None:
        gate.store = DryRunStore(gate.store.backend)
    return gate


def database_path(config: Config) -> Path | None:
    """Return the file of the store, or None if the store is not a file."""
    scheme, separator, rest = config.store.partition("://")
    if separator and scheme != "sqlite":
        return None
    name = unquote(rest.removeprefix("/")) if separator else config.store
    return Path(name) if name and name != MEMORY else None


def _log_spool_limits(config: Config) -> None:
    spool, database = open_configured_spool(config), database_path(config)
    if spool is not None and database is not None and spool.shares_disk(database):
        what = f"the spool {spool.path} is on the disk of the store, and a full disk stops both"
        _log.info("%s; the setting `spool` names another place", what)


def open_configured_spool(config: Config) -> Spool | None:
    """Return the spool for decisions that cannot be stored; by default beside the database."""
    if config.spool is not None:
        return Spool(Path(config.spool)) if config.spool else None
    if not config.store or "://" in config.store or config.store == ":memory:":
        return None
    return Spool(Path(f"{config.store}.spool.jsonl"))


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
    names or the nearest `demur.toml` (`find_config`). The record also reads as a mapping:
    `record["reason_codes"]` is a list of strings. If the store cannot be reached, the decision is
    ABSTAIN with STORAGE_UNAVAILABLE, also for the first request.

    Raises:
        InputError: The request or the settings are invalid.
        PolicyError: The policy is invalid.
        StorageError: The store is unusable: it is a folder, no database, or too new.
    """
    return cached_gate(config).decide(
        request, findings=findings, grants=grants, accepted=accepted, signals=signals, tenant=tenant
    )


def cached_gate(config: Config | Path | str | None = None) -> Gate:
    """Return the cached gate of some settings; it is reopened when one of its files changes."""
    path = find_config() if config is None else config
    if path is None:
        help_text = (
            f"`demur init --agent` makes a {CONFIG_NAME}; or pass `config=Config(policy=...)`"
        )
        raise InputError("no settings found", help=help_text)
    settings = path if isinstance(path, Config) else _load_cached(str(path), _file_state(str(path)))
    key = msgspec.json.encode(settings, order="deterministic")
    people = (settings.people.key, settings.people.trusted)
    files = (settings.policy, settings.keys, *settings.registries, *people)
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
