"""Health checks: settings, policy, keys, store, spool, file permissions, clock and disk.

`check_health` runs those of one settings file; `demur doctor` prints their results.
"""

import shutil
import stat
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from demur.codes.lint_rules import LintLevel
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import DemurError
from demur.gate.clock import format_timestamp
from demur.gate.config import (
    Config,
    database_path,
    open_configured_spool,
    open_configured_store,
)
from demur.gate.excerpt import MAX_EXCERPT_LENGTH
from demur.gate.guard_pipeline import build_pipeline, open_models
from demur.gate.guard_settings import CONFIGURED_SURFACES, GuardSettings
from demur.gate.people import load_issuers
from demur.gate.redaction import NO_REDACTION, find_profile
from demur.gate.scoring import run_scorer
from demur.grants.keys import load_trusted_keys
from demur.grants.revocations import RevocationFile
from demur.policy.lint import lint_policy
from demur.policy.loader import AGENT_POLICY, load_policy
from demur.policy.policy import Mode
from demur.store.rows import KEY_EXPIRY_NOTICE, ChainHead
from demur.store.store import Store
from demur.store.verify import verify_chain

_MAX_SHOWN = 3
# What a model is asked to see whether it answers.
_MODEL_TEXT = "What is the capital of France?"
_MIN_YEAR, _MAX_YEAR = 2025, 2100
_MIB = 1024 * 1024
_MIN_FREE_BYTES, _LOW_FREE_BYTES = 64 * _MIB, 1024 * _MIB
_DATABASE_SUFFIXES = ("", "-wal", "-shm")
_RECENT_RECORDS, _MAX_TENANTS = 1000, 100
# The clocks of machines that share a store differ a little.
_CLOCK_TOLERANCE = timedelta(minutes=2)
_EXTRAS = {
    "ed25519": ("cryptography", "grants that gates can verify but not sign"),
    "memory": ("usearch", "fast search among very many experiences"),
    "postgres": ("psycopg", "a store in PostgreSQL"),
}


class HealthState(StrEnum):
    """The state of a health check."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class HealthCheck(NamedTuple):
    """The result of one health check. `fix` repairs the problem if that is safe to do unasked."""

    name: str
    state: HealthState
    what: str
    help: str | None = None
    fix: Callable[[], None] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the check as plain JSON."""
        fields = {"state": self.state, "what": self.what, "help": self.help}
        return {"check": self.name, **fields, "fixable": self.fix is not None}


_Checks = Iterator[HealthCheck]


def _ok(name: str, what: str) -> HealthCheck:
    return HealthCheck(name, HealthState.OK, what)


def _warning(name: str, what: str, help_text: str) -> HealthCheck:
    return HealthCheck(name, HealthState.WARNING, what, help_text)


def _problem(
    name: str, what: str, help_text: str | None, fix: Callable[[], None] | None = None
) -> HealthCheck:
    return HealthCheck(name, HealthState.PROBLEM, what, help_text, fix)


def report_error(name: str, error: DemurError, more_help: str | None = None) -> _Checks:
    """Yield the first problems of an error; `more_help` says where to find the others."""
    for found in error.problems[:_MAX_SHOWN]:
        what = f"{found.where}: {found.problem}" if found.where else found.problem
        yield _problem(name, what, found.help)
    left = len(error.problems) - _MAX_SHOWN
    if left > 0:
        yield _problem(name, f"and {left} more", more_help)


def _report_checks(name: str, checks: _Checks, more_help: str | None = None) -> _Checks:
    """Yield the checks; an error that they raise becomes problems of `name`."""
    try:
        yield from checks
    except DemurError as error:
        yield from report_error(name, error, more_help)


def check_health(path: Path, config: Config, now: datetime) -> _Checks:
    """Yield the results of all checks of the settings in the file `path`."""
    yield from check_settings(path, config)
    yield from check_store(config, now)
    yield from _report_checks("spool", check_spool(config))
    yield from check_permissions(path, config)
    yield from check_disk(config)


# -- configuration ---------------------------------------------------------------------------


def check_settings(path: Path, config: Config) -> _Checks:
    """Yield checks of the settings and of the files that they name."""
    if config.policy == str(AGENT_POLICY):
        help_text = "`demur init --agent` writes settings and policy as files to change"
        yield _warning("settings", f"none: the policy for agents decides for {path}", help_text)
    else:
        yield _ok("settings", str(path))
    yield from _report_checks("registry", _check_registry(config))
    yield from _report_checks("redaction", _check_redaction(config))
    yield from _report_checks("keys", _check_keys(config))
    if config.revocations:
        yield from _report_checks("revocations", _check_revocations(config.revocations))


def _check_registry(config: Config) -> _Checks:
    registry = default_registry(*config.registries)
    yield _ok("registry", f"{len(registry)} codes, {registry.label}")
    more_help = f"`demur policy validate {config.policy}` lists all problems"
    yield from _report_checks("policy", _check_policy(config, registry), more_help)
    if config.guards != GuardSettings():
        yield from _report_checks("guards", _check_guards(config, registry))


def _check_guards(config: Config, registry: Registry) -> _Checks:
    guards = config.guards
    build_pipeline(guards, *CONFIGURED_SURFACES, registry=registry)
    parts = [f"{len(guards.files)} rule files" if guards.files else ""]
    parts += [f"{len(guards.shadow)} in shadow" if guards.shadow else ""]
    models = len(guards.models)
    parts += [f"{models} model{'s' * (models > 1)}" if models else ""]
    yield _ok("guards", ", ".join(filter(None, parts)) or "settings of your own")


def check_models(config: Config) -> _Checks:
    """Yield whether each model that the settings name answers; this asks each of them once."""
    registry = default_registry(*config.registries)
    for scorer in open_models(config.guards, registry):
        name = f"`{scorer.name}`"
        found = run_scorer(scorer, Surface.INPUT, _MODEL_TEXT)
        if found.guard.failure is None:
            yield _ok("model", f"{name} answers: {scorer.model}, {len(found.scores)} categories")
            continue
        may_miss = scorer.on_failure == "signal_missing"
        meaning = "its signals are missing" if may_miss else "each check that needs it abstains"
        what = f"{name} gives no scores: {found.guard.failure.note}; {meaning}"
        report = _warning if may_miss else _problem
        yield report("model", what, found.guard.failure.help)


def _check_policy(config: Config, registry: Registry) -> _Checks:
    policy = load_policy(config.policy, registry=registry)
    rules = f"{len(policy.rules)} rule{'s' * (len(policy.rules) != 1)}"
    yield _ok("policy", f"{policy.policy_id} {policy.policy_version}, {rules}")
    diagnostics = lint_policy(policy, registry)
    help_text = f"`demur policy lint {config.policy}` lists all diagnostics"
    for level, make in ((LintLevel.ERROR, _problem), (LintLevel.WARNING, _warning)):
        found = [diagnostic for diagnostic in diagnostics if diagnostic.level is level]
        if found:
            more = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
            yield make("policy", f"{found[0].where}: {found[0].message}{more}", help_text)
    if (policy.mode if config.mode is None else config.mode) is Mode.ADVISORY:
        help_text = "advisory mode is meant for trials; `enforce` makes verdicts binding"
        yield _warning("mode", "advisory: verdicts are recorded and do not bind", help_text)


def _check_redaction(config: Config) -> _Checks:
    profile = find_profile(config.redaction, config.redact_paths)
    if profile.name == NO_REDACTION.name:
        help_text = "`default` removes likely secrets before storing"
        yield _warning("redaction", "off: secrets in requests are stored unredacted", help_text)
    else:
        more = f", and {', '.join(config.redact_paths)}" if config.redact_paths else ""
        yield _ok("redaction", f"{profile.name}{more}")
    if config.excerpts != "off":
        where = (
            "where a guard finds something" if config.excerpts == "findings" else "at each check"
        )
        yield _ok("excerpts", f"up to {MAX_EXCERPT_LENGTH} characters are recorded {where}, sealed")


def _check_keys(config: Config) -> _Checks:
    keys = load_trusted_keys(config.keys)
    for key in keys.values():
        # Verifying anything finds a missing package.
        key.verify_signature(b"", "")
    holders = sorted({key.holder for key in keys.values()})
    if load_issuers(config.people):
        holders.append("people")
    none = "no trusted keys, so no grant is accepted"
    yield _ok("keys", f"grants of {', '.join(holders)} are accepted" if holders else none)


def _check_revocations(path: str) -> _Checks:
    # Without the file nobody knows what was revoked, so no grant counts.
    yield _ok("revocations", f"{len(RevocationFile(path).read())} grants are revoked by {path}")


# -- the store -------------------------------------------------------------------------------


def check_store(config: Config, now: datetime) -> _Checks:
    """Yield checks of the store, without creating one."""
    path = database_path(config)
    if not config.store:
        what = "none: decisions are made, but cannot be proved later"
        yield _warning("store", what, 'set `store = "demur.db"` to keep them')
    elif path is not None and not path.parent.is_dir():
        folder = path.parent
        what = f"the folder {folder} does not exist"
        yield _problem("store", what, "create it", lambda: folder.mkdir(mode=0o700, parents=True))
    elif path is not None and not path.exists():
        yield _ok("store", f"{path} does not exist yet; the first decision creates it")
    else:
        yield from _report_checks("store", _check_open_store(config, now))


def _check_open_store(config: Config, now: datetime) -> _Checks:
    store = open_configured_store(config)
    assert store is not None
    with store:
        info, count = store.info(), store.count_rows()["records"]
        records = f"{count} record{'s' * (count != 1)}"
        yield _ok("store", f"{info['kind']}, schema {info['schema_version']}, {records}")
        if info["durability"] == "full":
            yield _ok("durability", "full: decisions survive a power failure")
        else:
            what = "normal: a power failure may lose the last decisions"
            yield _warning("durability", what, '`durability = "full"` waits for the disk')
        yield from _report_checks("writing", _check_writable(store))
        yield from _check_chains(store)
        yield from _check_api_keys(store, now)
        newest = next(store.find_records(newest_first=True, limit=1), None)
        if newest is not None and newest.created_at > format_timestamp(now + _CLOCK_TOLERANCE):
            what = f"the newest record is from {newest.created_at}, which is in the future"
            yield _problem("clock", what, "set the clock; records are ordered by time")


def _check_api_keys(store: Store, now: datetime) -> _Checks:
    """Yield whether keys of the service expire soon, or never."""
    keys = [key for key in store.list_keys() if key.revoked_at is None]
    help_text = "`demur keys create` makes another, `demur keys revoke` ends the old one"
    today, soon = (format_timestamp(at) for at in (now, now + KEY_EXPIRY_NOTICE))
    for key in keys:
        if key.expires_at is not None and today < key.expires_at <= soon:
            what = f"key {key.key_id} of {key.tenant or 'all tenants'} expires at {key.expires_at}"
            yield _warning("api keys", what, help_text)
    endless = [key.key_id for key in keys if key.expires_at is None]
    if endless:
        names = ", ".join(endless[:_MAX_SHOWN])
        yield _warning("api keys", f"{len(endless)} never expire, like {names}", help_text)


def _check_writable(store: Store) -> _Checks:
    with store.backend.transaction():
        pass
    yield _ok("writing", "the store accepts writes")


def _check_chains(store: Store) -> _Checks:
    """Yield whether the newest records of each tenant form a valid chain."""
    heads = {head.tenant: head for head in store.list_heads()}
    tenants = store.backend.list_tenants()[:_MAX_TENANTS]
    firsts = {
        tenant: max(1, heads.get(tenant, ChainHead(tenant, 0, "")).seq - _RECENT_RECORDS + 1)
        for tenant in tenants
    }
    verified = [verify_chain(store.backend, name, first=first) for name, first in firsts.items()]
    broken = [one for part in verified for one in part.breaks]
    for one in broken:
        what = f"broken at record {one.seq} of tenant {one.tenant}: {one.problem}"
        yield _problem("chain", what, "copy the store, then run `demur audit verify`")
    count = sum(part.records for part in verified)
    if not broken:
        one_valid = "the newest record is valid" if count else "no records yet"
        yield _ok("chain", f"the newest {count} records are valid" if count > 1 else one_valid)
    unconfirmed = sum(part.unconfirmed for part in verified)
    if unconfirmed:
        what = f"stored too late for their callers: {unconfirmed} of the newest records"
        help_text = "their callers got a timeout; is the disk slow, or `deadline_s` too short?"
        yield _warning("chain", what, help_text)


def check_spool(config: Config) -> _Checks:
    """Yield whether the spool holds decisions that could not be stored."""
    spool = open_configured_spool(config)
    if spool is None:
        return
    held = spool.read()
    count = len(held.records) + len(held.unreadable)
    if not count:
        database = database_path(config)
        shared = database is not None and spool.shares_disk(database)
        note = "; it is on the disk of the store, and a full disk stops both" if shared else ""
        yield _ok("spool", f"empty: every decision was stored{note}")
        return
    unreadable = f", {len(held.unreadable)} of them unreadable" if held.unreadable else ""
    since = f", since {held.records[0].created_at}" if held.records else ""
    what = f"{count} decision{'s' * (count != 1)} could not be stored{since}{unreadable}"
    yield _problem("spool", what, f"demur refused them; find the cause, then archive {spool.path}")


# -- the machine -----------------------------------------------------------------------------


def check_permissions(path: Path, config: Config) -> _Checks:
    """Yield the files that other users of this machine can read or change and should not."""
    trusted = (path, config.policy, *config.registries, config.keys)
    secrets, files = _list_secrets(path, config), [Path(file) for file in trusted if file]
    found = [
        *_find_exposed(secrets, stat.S_IRWXO, "can be read by every user of this machine"),
        *_find_exposed(files, stat.S_IWOTH, "can be changed by every user"),
    ]
    yield from found
    if not found:
        yield _ok("rights", "the store and the keys are closed to other users")


def _find_exposed(files: list[Path], bits: int, what: str) -> _Checks:
    for file in files:
        mode = stat.S_IMODE(file.stat().st_mode) if file.is_file() else 0
        if mode & bits:
            right = "o-rwx" if bits == stat.S_IRWXO else "o-w"
            help_text = f"`demur doctor --fix`, or chmod {right} {file}"
            yield _problem("rights", f"{file} {what}", help_text, _chmod_fix(file, mode & ~bits))


def _chmod_fix(file: Path, mode: int) -> Callable[[], None]:
    return lambda: file.chmod(mode)


def _list_secrets(path: Path, config: Config) -> list[Path]:
    """Return the files that hold personal data or signing keys."""
    database, spool = database_path(config), open_configured_spool(config)
    ends = () if database is None else _DATABASE_SUFFIXES
    files = [Path(f"{database}{end}") for end in ends]
    files += [] if spool is None else [spool.path]
    files += sorted(path.parent.glob("*.key.json"))
    try:
        # A trusted HMAC key is the secret itself.
        if config.keys is not None and b"hmac" in Path(config.keys).read_bytes():
            files.append(Path(config.keys))
    except OSError:
        pass
    return files


def check_disk(config: Config) -> _Checks:
    """Yield whether the disk has space for more decisions."""
    database = database_path(config)
    folder = Path() if database is None else database.parent
    if not folder.is_dir():
        return
    free = shutil.disk_usage(folder).free
    what, why = f"{free / _MIB:,.0f} MiB free", "demur refuses requests that it cannot store"
    if free < _MIN_FREE_BYTES:
        yield _problem("disk", what, f"free some space: {why}")
    elif free < _LOW_FREE_BYTES:
        yield _warning("disk", what, f"free some space soon: {why}")
    else:
        yield _ok("disk", what)


def check_clock(now: datetime) -> _Checks:
    """Yield whether the clock is plausible."""
    if _MIN_YEAR <= now.year < _MAX_YEAR:
        yield _ok("clock", f"{now:%Y-%m-%d %H:%M} UTC")
    else:
        what = f"the clock says {now:%Y-%m-%d}, which is not plausible"
        yield _problem("clock", what, "set the clock; records and grants depend on it")


def check_extras() -> _Checks:
    """Yield which extras are installed; none is needed unless a setting requires it."""
    for extra, (package, use) in _EXTRAS.items():
        absent = f"not installed; for {use}: pip install 'demur[{extra}]'"
        yield _ok("extras", f"{extra}: {absent if find_spec(package) is None else 'installed'}")
