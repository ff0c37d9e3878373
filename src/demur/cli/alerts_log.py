"""Logs as a source of counts for alert rules, read as `demur triage_logs` reads them.

A log holds refusals only, no allowed decisions. Refusals without a time are not counted, so counts
are lower bounds if a log has such lines.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from demur.codes.default import default_registry
from demur.errors import InputError
from demur.observe.alerts.counts import DecisionCounts, CountSource
from demur.triage.counts import CANONICAL, LEGACY, UNKNOWN
from demur.triage.counts import RefusalCounts as LogCounts
from demur.triage.inputs import STDIN, TriagePlan, plan_work
from demur.triage.options import TriageOptions
from demur.triage.run import triage_logs

__all__ = ["open_log_source"]

_COUNTED_KINDS = {CANONICAL, LEGACY, UNKNOWN}


class _LogSource:
    """Reads the logs once for each period of time, and caches the counts."""

    def __init__(self, logs: TriagePlan, registries: tuple[str, ...], now: datetime) -> None:
        self._logs = logs
        self._registries = registries
        self._registry = default_registry(*registries)
        self._now = now
        self._cache: dict[tuple[datetime, datetime], DecisionCounts] = {}

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the counts."""
        about = (since, until)
        if about not in self._cache:
            options = TriageOptions(
                registries=self._registries, since=since, until=until, now=self._now
            )
            self._cache[about] = self._count_refusals(triage_logs(self._logs, options))
        return self._cache[about]

    def _count_refusals(self, found: LogCounts) -> DecisionCounts:
        codes: Counter[str] = Counter()
        classes: Counter[str] = Counter()
        for key, number in found.rows.items():
            if key.kind in _COUNTED_KINDS:
                codes[key.code] += number
                entry = self._registry.get(key.code)
                if entry is not None and entry.refusal_class is not None:
                    classes[str(entry.refusal_class)] += number
        return DecisionCounts(None, codes, classes, None, None, "; ".join(_describe_gaps(found)))


def open_log_source(
    names: Sequence[str], registries: tuple[str, ...], now: datetime
) -> CountSource:
    """Return the refusals in logs (files, folders, globs) as a source of counts.

    Raises:
        InputError: A log cannot be read, or is standard input.
        RegistryError: A registry cannot be read.
    """
    if STDIN in names:
        help_text = "write it to a file; several rules read it"
        raise InputError("standard input cannot be read twice", where="--log", help=help_text)
    logs = plan_work(names)
    for unread in logs.unread:
        raise InputError(f"cannot read the log: {unread.reason}", where=unread.file)
    return _LogSource(logs, registries, now)


def _describe_gaps(found: LogCounts) -> Iterator[str]:
    """Yield the reasons why the counts may be too low."""
    if found.undated:
        one = found.undated == 1
        yield f"{found.undated} refusal{' in the log has' if one else 's in the log have'} no time"
    for unread in found.unread:
        yield f"{unread.file} could not be read to its end: {unread.reason}"
