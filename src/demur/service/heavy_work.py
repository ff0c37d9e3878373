"""The heavy work of the service: pure functions that a process of their own can run.

Large texts keep a processor busy for a while, and a busy thread would hold up the event loop. So
these functions run in a `WorkProcess`. Each takes the context of its process, and arguments that
can be sent there. A service without such processes calls them on a thread.
"""

import io
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from demur.audit.period_report import PeriodReport, build_period_report, verify_small_chains
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.enforce.opening import build_agent_pipeline
from demur.errors import DemurError
from demur.gate.config import Config, database_path, open_configured_store
from demur.gate.guard_run import GuardResult
from demur.gate.guard_settings import GuardSettings
from demur.gate.pipeline import GuardPipeline
from demur.guards.builtin import EMPTY_EVENTS, parse_event
from demur.service.json_body import encode_json, require_unique_keys
from demur.service.record_search import find_newest, record_view
from demur.service.sample import SAMPLE_TENANT
from demur.store.backend import RecordFilter
from demur.store.store import Store
from demur.triage.counts import RefusalCounts, TriageOptions
from demur.triage.scan import scan_stream

# What a report reads within a call: decisions of the period, and links of the chains.
_MAX_REPORTED = 100_000
_MAX_VERIFIED = 50_000


def _find_nothing() -> None:
    """Return no store."""


class WorkSetup(NamedTuple):
    """What a process needs to know to work as the service would."""

    guards: GuardSettings
    registries: tuple[str, ...] = ()
    # Names the store; without it, the process reads none.
    config: Config | None = None

    @property
    def names_store(self) -> bool:
        """Whether a process can open the store of the service."""
        config = self.config
        return config is not None and ("://" in config.store or database_path(config) is not None)


class WorkContext(NamedTuple):
    """The parts of one process that heavy work needs."""

    guards: GuardSettings
    registry: Registry
    pipeline: GuardPipeline
    find_store: Callable[[], Store | None] = _find_nothing
    # Whether to give up; a process is interrupted instead.
    is_stopped: Callable[[], bool] = bool


def build_context(setup: WorkSetup) -> WorkContext:
    """Return the context of a process. Rates are counted by the service, never here."""
    guards, registry = replace(setup.guards, limits=()), default_registry(*setup.registries)
    pipeline = build_agent_pipeline(guards, registry)
    config = setup.config

    @cache
    def find_store() -> Store | None:
        return None if config is None else open_configured_store(config)

    return WorkContext(guards, registry, pipeline, find_store)


def warm_guard(context: WorkContext, surface: str) -> None:
    """Have a guard compile its rules, so that the first event does not wait for it."""
    check_event(context, surface, parse_event(surface, EMPTY_EVENTS.get(surface, "")))


def check_event(
    context: WorkContext, surface: str, event: Any, fields: dict[str, Any] | None = None
) -> GuardResult:
    """Run the built-in guard of a surface on an event; `fields` are further settings of it."""
    if not fields:
        return context.pipeline.run_builtin(surface, event)
    settings = context.guards.with_fields(surface, fields)
    pipeline = build_agent_pipeline(settings, context.registry, surfaces=[surface])
    return pipeline.run_builtin(surface, event)


def check_keys(context: WorkContext, raw: bytes) -> None:  # noqa: ARG001 - as all of these
    """Refuse JSON in which an object has a key twice.

    Raises:
        ProblemError: A key occurs twice.
    """
    require_unique_keys(raw)


def find_page(context: WorkContext, query: RecordFilter, now: datetime, limit: int) -> bytes:
    """Return a page of decisions as JSON: those that match, and where the next page begins.

    Raises:
        StorageError: The store cannot be read.
    """
    store = context.find_store()
    found = [] if store is None else find_newest(store, query, now, limit + 1)
    following = found[limit - 1].decision_id if len(found) > limit else None
    shown = [record_view(record) for record in found[:limit]]
    return encode_json({"decisions": shown, "next": following})


def report_period(context: WorkContext, tenant: str | None, since: str, until: str) -> PeriodReport:
    """Return the report on a period of one tenant, or of all; made-up decisions are left out.

    Raises:
        InputError: The period holds more decisions than a call may read.
        StorageError: The store cannot be read.
    """
    store = context.find_store()
    if store is None:
        return PeriodReport((), since, until, None, ())
    known = store.backend.list_tenants()
    real = [one for one in known if one != SAMPLE_TENANT] or known
    tenants = real if tenant is None else [one for one in known if one == tenant]
    proof = verify_small_chains(store, tenants, _MAX_VERIFIED)
    return build_period_report(store, tenants, since, until, proof=proof, max_records=_MAX_REPORTED)


class LogTooLargeError(DemurError, ValueError):
    """A log is too large when unpacked."""


def scan_log(
    context: WorkContext, content: bytes, name: str, options: TriageOptions, max_bytes: int
) -> RefusalCounts:
    """Return the counts of a log.

    Raises:
        LogTooLargeError: It holds more than `max_bytes` when unpacked.
    """
    left = [max_bytes]

    def check_progress(read: int) -> None:
        left[0] -= read
        if left[0] < 0:
            raise LogTooLargeError(
                f"the unpacked log must not exceed {max_bytes} bytes",
                help="use `demur triage` for larger logs",
            )
        if context.is_stopped():
            raise TimeoutError

    source = cast("io.RawIOBase", io.BytesIO(content))
    known = options._replace(registry=context.registry)
    return scan_stream(source, name, known, progress=check_progress)
