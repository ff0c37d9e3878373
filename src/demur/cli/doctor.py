"""`demur doctor`: check settings, policy, store, file permissions, clock and disk."""

import argparse
import json
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from demur.classification.grants import KeyRing
from demur.cli.options import argument_adder
from demur.cli.terminal import Paint
from demur.cli.workspace import add_config_option, config_path, database_path, read_settings
from demur.codes.lint_rules import LintLevel
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.errors import DemurError, one_line
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import (
    Config,
    load_trusted_keys,
    open_configured_spool,
    open_configured_store,
)
from demur.gate.redaction import NO_REDACTION, find_profile
from demur.policy.lint import lint_policy
from demur.policy.loader import load_policy
from demur.policy.policy import Mode, Policy
from demur.store.backend import StorageError
from demur.store.rows import ChainHead
from demur.store.store import Store
from demur.store.verify import ChainVerification, verify_chain

_MAX_SHOWN = 3


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
        return {
            "check": self.name,
            "state": self.state,
            "what": self.what,
            "help": self.help,
            "fixable": self.fix is not None,
        }


def report_ok(name: str, what: str) -> HealthCheck:
    """Return a passed check."""
    return HealthCheck(name, HealthState.OK, what)


def report_warning(name: str, what: str, help_text: str | None = None) -> HealthCheck:
    """Return a check with a warning."""
    return HealthCheck(name, HealthState.WARNING, what, help_text)


def report_problem(
    name: str, what: str, help_text: str | None = None, fix: Callable[[], None] | None = None
) -> HealthCheck:
    """Return a failed check."""
    return HealthCheck(name, HealthState.PROBLEM, what, help_text, fix)


def report_error(name: str, error: DemurError, more_help: str | None = None) -> list[HealthCheck]:
    """Return the first problems of an error; `more_help` says where to find the others."""
    shown = [
        report_problem(
            name, f"{found.where}: {found.problem}" if found.where else found.problem, found.help
        )
        for found in error.problems[:_MAX_SHOWN]
    ]
    left = len(error.problems) - len(shown)
    return [*shown, report_problem(name, f"and {left} more", more_help)] if left else shown


_OTHERS_ANY = stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWOTH
_MIN_YEAR, _MAX_YEAR = 2025, 2100
_MIB = 1024 * 1024
_MIN_FREE_BYTES, _LOW_FREE_BYTES = 64 * _MIB, 1024 * _MIB
_EXTRAS = {
    "ed25519": ("cryptography", "grants that gates can verify but not sign"),
    "memory": ("usearch", "fast search among very many experiences"),
    "postgres": ("psycopg", "a store in PostgreSQL"),
}


def check_permissions(path: Path, config: Config) -> Iterator[HealthCheck]:
    """Yield the files that other users of this machine can read or change and should not."""
    found = [
        *_find_exposed(
            _list_secrets(path, config), _OTHERS_ANY, "can be read by every user of this machine"
        ),
        *_find_exposed(_list_trusted(path, config), _OTHERS_WRITE, "can be changed by every user"),
    ]
    yield from found
    if not found:
        yield report_ok("rights", "the store and the keys are closed to other users")


def _find_exposed(files: Iterator[Path], bits: int, what: str) -> Iterator[HealthCheck]:
    for file in files:
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & bits:
            right = "o-rwx" if bits == _OTHERS_ANY else "o-w"
            help_text = f"`demur doctor --fix`, or chmod {right} {file}"
            yield report_problem(
                "rights", f"{file} {what}", help_text, _make_chmod_fix(file, mode & ~bits)
            )


def _make_chmod_fix(file: Path, mode: int) -> Callable[[], None]:
    return lambda: file.chmod(mode)


def _list_secrets(path: Path, config: Config) -> Iterator[Path]:
    """Yield the files that hold personal data or signing keys."""
    database, spool = database_path(config), open_configured_spool(config)
    candidates = (
        [] if database is None else [Path(f"{database}{end}") for end in _DATABASE_SUFFIXES]
    )
    if spool is not None:
        candidates.append(spool.path)
    candidates += sorted(path.parent.glob("*.key.json"))
    if config.keys is not None and "hmac" in _read_text(Path(config.keys)):
        # A trusted HMAC key is the secret itself.
        candidates.append(Path(config.keys))
    return (file for file in candidates if file.is_file())


_DATABASE_SUFFIXES = ("", "-wal", "-shm")


def _list_trusted(path: Path, config: Config) -> Iterator[Path]:
    """Yield the files that control decisions."""
    named = (path, config.policy, *config.registries, config.keys)
    return (Path(file) for file in named if file is not None and Path(file).is_file())


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def check_clock(now: datetime) -> Iterator[HealthCheck]:
    """Yield whether the clock is plausible."""
    if _MIN_YEAR <= now.year < _MAX_YEAR:
        yield report_ok("clock", f"{now:%Y-%m-%d %H:%M} UTC")
    else:
        what = f"the clock says {now:%Y-%m-%d}, which is not plausible"
        yield report_problem("clock", what, "set the clock; records and grants depend on it")


def check_disk(config: Config) -> Iterator[HealthCheck]:
    """Yield whether the disk has space for more decisions."""
    database = database_path(config)
    folder = Path() if database is None else database.parent
    if not folder.is_dir():
        return
    free = shutil.disk_usage(folder).free
    said = f"{free / _MIB:,.0f} MiB free"
    if free < _MIN_FREE_BYTES:
        yield report_problem(
            "disk", said, "free some space: demur refuses requests that it cannot store"
        )
    elif free < _LOW_FREE_BYTES:
        yield report_warning(
            "disk", said, "free some space soon: demur refuses requests that it cannot store"
        )
    else:
        yield report_ok("disk", said)


def check_extras() -> Iterator[HealthCheck]:
    """Yield which extras are installed; none is needed unless a setting requires it."""
    for extra, (package, use) in _EXTRAS.items():
        if find_spec(package) is not None:
            yield report_ok("extras", f"{extra}: installed")
        else:
            yield report_ok(
                "extras", f"{extra}: not installed; for {use}: pip install 'demur[{extra}]'"
            )


def check_settings(path: Path, config: Config) -> Iterator[HealthCheck]:
    """Yield checks of the settings and of the files that they name."""
    yield report_ok("settings", str(path))
    try:
        registry = default_registry(*config.registries)
    except DemurError as error:
        yield from report_error("registry", error)
    else:
        yield report_ok("registry", f"{len(registry)} codes, {registry.label}")
        yield from _check_policy(config, registry)
    yield from _check_redaction(config)
    yield from _check_keys(config)


def _check_policy(config: Config, registry: Registry) -> Iterator[HealthCheck]:
    try:
        policy = load_policy(config.policy, registry=registry)
    except DemurError as error:
        all_of_it = f"`demur policy validate {config.policy}` lists all problems"
        yield from report_error("policy", error, all_of_it)
        return
    rules = f"{len(policy.rules)} rule{'s' * (len(policy.rules) != 1)}"
    yield report_ok("policy", f"{policy.policy_id} {policy.policy_version}, {rules}")
    yield from _check_lint(policy, config, registry)
    mode = policy.mode if config.mode is None else config.mode
    if mode is Mode.ADVISORY:
        help_text = "advisory mode is meant for trials; `enforce` makes verdicts binding"
        yield report_warning("mode", "advisory: verdicts are recorded and do not bind", help_text)


def _check_lint(policy: Policy, config: Config, registry: Registry) -> Iterator[HealthCheck]:
    remarks = lint_policy(policy, registry)
    help_text = f"`demur policy lint {config.policy}` lists all diagnostics"
    for level, make in ((LintLevel.ERROR, report_problem), (LintLevel.WARNING, report_warning)):
        found = [remark for remark in remarks if remark.level is level]
        if found:
            more = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
            yield make("policy", f"{found[0].where}: {found[0].message}{more}", help_text)


def _check_redaction(config: Config) -> Iterator[HealthCheck]:
    try:
        profile = find_profile(config.redaction, config.redact_paths)
    except DemurError as error:
        yield from report_error("redaction", error)
        return
    if profile.name == NO_REDACTION.name:
        help_text = "`default` removes likely secrets before storing"
        yield report_warning(
            "redaction", "off: secrets in requests are stored unredacted", help_text
        )
    else:
        more = f", and {', '.join(config.redact_paths)}" if config.redact_paths else ""
        yield report_ok("redaction", f"{profile.name}{more}")


def _check_keys(config: Config) -> Iterator[HealthCheck]:
    try:
        keys = load_trusted_keys(config.keys)
        _try_keys(keys)
    except DemurError as error:
        yield from report_error("keys", error)
        return
    if keys:
        holders = ", ".join(sorted({key.holder for key in keys.values()}))
        yield report_ok("keys", f"grants of {holders} are accepted")
    else:
        yield report_ok("keys", "no trusted keys, so no grant is accepted")


def _try_keys(keys: KeyRing) -> None:
    """Verify a signature with each key, to find missing packages."""
    for key in keys.values():
        key.verify_signature(b"", "")


_RECENT_RECORDS = 1000
_MAX_TENANTS = 100
# The clocks of machines that share a store differ a little.
_CLOCK_TOLERANCE = timedelta(minutes=2)


def check_store(config: Config, now: datetime) -> Iterator[HealthCheck]:
    """Yield checks of the store, without creating one."""
    path = database_path(config)
    if not config.store:
        help_text = 'set `store = "demur.db"` to keep them'
        yield report_warning(
            "store", "none: decisions are made, but cannot be proved later", help_text
        )
    elif path is not None and not path.parent.is_dir():
        yield report_problem(
            "store", f"the folder {path.parent} does not exist", "create it", _make_folder_fix(path)
        )
    elif path is not None and not path.exists():
        yield report_ok("store", f"{path} does not exist yet; the first decision creates it")
    else:
        yield from _check_open_store(config, now)


def _make_folder_fix(path: Path) -> Callable[[], None]:
    return lambda: path.parent.mkdir(parents=True)


def _check_open_store(config: Config, now: datetime) -> Iterator[HealthCheck]:
    try:
        store = open_configured_store(config)
    except DemurError as error:
        yield from report_error("store", error)
        return
    assert store is not None
    with store:
        try:
            yield from _describe_store(store)
            yield from _check_writable(store)
            yield from _check_chains(store)
            yield from _check_newest(store, now)
        except StorageError as error:
            yield from report_error("store", error)


def _describe_store(store: Store) -> Iterator[HealthCheck]:
    info, counts = store.info(), store.count_rows()
    records = f"{counts['records']} record{'s' * (counts['records'] != 1)}"
    yield report_ok("store", f"{info['kind']}, schema {info['schema_version']}, {records}")
    if info["durability"] == "full":
        yield report_ok("durability", "full: decisions survive a power failure")
    else:
        what = "normal: a power failure may lose the last decisions"
        yield report_warning("durability", what, '`durability = "full"` waits for the disk')


def _check_writable(store: Store) -> Iterator[HealthCheck]:
    try:
        with store.backend.transaction():
            pass
    except StorageError as error:
        yield from report_error("writing", error)
    else:
        yield report_ok("writing", "the store accepts writes")


def _check_chains(store: Store) -> Iterator[HealthCheck]:
    """Yield whether the newest records of each tenant form a valid chain."""
    heads = {head.tenant: head for head in store.list_heads()}
    tenants = store.backend.list_tenants()
    found = [
        _verify_recent(store, heads.get(tenant, ChainHead(tenant, 0, "")))
        for tenant in tenants[:_MAX_TENANTS]
    ]
    broken = [one for part in found for one in part.breaks]
    for one in broken:
        what = f"broken at record {one.seq} of tenant {one.tenant}: {one.problem}"
        yield report_problem("chain", what, "copy the store, then run `demur audit verify`")
    records = sum(part.records for part in found)
    if not broken:
        yield report_ok("chain", _describe_chain(records))
    unconfirmed = sum(part.unconfirmed for part in found)
    if unconfirmed:
        yield report_warning(
            "chain",
            f"stored too late for their callers: {unconfirmed} of the newest records",
            "their callers got a timeout; is the disk slow, or `deadline_s` too short?",
        )


def _describe_chain(records: int) -> str:
    if records < 2:
        return "the newest record is valid" if records else "no records yet"
    return f"the newest {records} records are valid"


def _verify_recent(store: Store, head: ChainHead) -> ChainVerification:
    return verify_chain(store.backend, head.tenant, first=max(1, head.seq - _RECENT_RECORDS + 1))


def _check_newest(store: Store, now: datetime) -> Iterator[HealthCheck]:
    record = next(store.find_records(newest_first=True, limit=1), None)
    if record is not None and record.created_at > format_timestamp(now + _CLOCK_TOLERANCE):
        what = f"the newest record is from {record.created_at}, which is in the future"
        yield report_problem("clock", what, "set the clock; records are ordered by time")


def check_spool(config: Config) -> Iterator[HealthCheck]:
    """Yield whether the spool holds decisions that could not be stored."""
    spool = open_configured_spool(config)
    if spool is None:
        return
    try:
        held = spool.read()
    except StorageError as error:
        yield from report_error("spool", error)
        return
    count = len(held.records) + len(held.unreadable)
    if not count:
        yield report_ok("spool", "empty: every decision was stored")
        return
    unreadable = f", {len(held.unreadable)} of them unreadable" if held.unreadable else ""
    since = f", since {held.records[0].created_at}" if held.records else ""
    yield report_problem(
        "spool",
        f"{count} decision{'s' * (count != 1)} could not be stored{since}{unreadable}",
        f"demur refused them; find the cause, then archive {spool.path}",
    )


_STATE_COLOURS = {
    HealthState.OK: "green",
    HealthState.WARNING: "yellow",
    HealthState.PROBLEM: "red",
}
# A fix may reveal another problem: first a missing folder, then its content.
_MAX_FIX_ROUNDS = 3


def configure_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = argument_adder(parser)
    parser.epilog = "exit: 0 no problems, warnings allowed; 1 problems; 2 usage"
    add("--fix", "apply safe fixes: create missing folders, remove permissions of other users")
    add("--json", "one JSON object")
    add_config_option(parser)


def run_doctor(args: argparse.Namespace) -> int:
    """Print the checks; 1 if a problem remains."""
    now = system_clock()
    checks = list(run_checks(args, now))
    fixed: list[HealthCheck] = []
    for _ in range(_MAX_FIX_ROUNDS if args.fix else 0):
        repaired = list(_apply_fixes(checks))
        if not repaired:
            break
        fixed += repaired
        checks = list(run_checks(args, now))
    if args.json:
        print(json.dumps(_checks_to_json(checks, fixed), indent=2))
    else:
        print("\n".join(_format_checks(checks, fixed, Paint())))
    return int(any(check.state is HealthState.PROBLEM for check in checks))


def run_checks(args: argparse.Namespace, now: datetime) -> Iterator[HealthCheck]:
    """Yield the results of all checks."""
    yield from _check_workspace(args, now)
    yield from check_clock(now)
    yield from check_extras()


def _check_workspace(args: argparse.Namespace, now: datetime) -> Iterator[HealthCheck]:
    try:
        path = config_path(args)
        config = read_settings(path)
    except DemurError as error:
        yield from report_error("settings", error)
        return
    yield from check_settings(path, config)
    yield from check_store(config, now)
    yield from check_spool(config)
    yield from check_permissions(path, config)
    yield from check_disk(config)


def _apply_fixes(checks: Sequence[HealthCheck]) -> Iterator[HealthCheck]:
    """Yield the checks whose fix succeeded; the others stay problems."""
    for check in checks:
        if check.fix is None:
            continue
        try:
            check.fix()
        except OSError:
            continue
        yield check


def _checks_to_json(
    checks: Sequence[HealthCheck], fixed: Sequence[HealthCheck]
) -> dict[str, object]:
    return {
        "problems": sum(check.state is HealthState.PROBLEM for check in checks),
        "warnings": sum(check.state is HealthState.WARNING for check in checks),
        "fixed": [check.what for check in fixed],
        "checks": [check.as_json() for check in checks],
    }


def _format_checks(
    checks: Sequence[HealthCheck], fixed: Sequence[HealthCheck], paint: Paint
) -> Iterator[str]:
    for check in fixed:
        yield f"{paint('fixed'.ljust(8), 'cyan')} {check.name.ljust(10)} {one_line(check.what)}"
    for check in checks:
        state = paint(check.state.ljust(8), _STATE_COLOURS[check.state])
        yield f"{state} {check.name.ljust(10)} {one_line(check.what)}"
        if check.help:
            yield f"  {paint('help:', 'cyan')} {one_line(check.help)}"
    counts = Counter(check.state for check in checks)
    said = [
        f"{counts[state]} {state}{'s' * (counts[state] != 1)}"
        for state in (HealthState.PROBLEM, HealthState.WARNING)
        if counts[state]
    ]
    yield paint(", ".join(said) or "all is well", "dim")
