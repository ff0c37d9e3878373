"""Counts of the refusals in logs of any size: by code, class, surface, time and file.

`scan_range` counts in a range of a file and `scan_batch` in an Arrow batch. Their counts merge in
any order and grouping, so the work can be cut anywhere.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.triage.cluster import (
        counts_from_table,
        scan_batch,
        to_table,
        triage_dataframe,
        triage_on_cluster,
    )
    from demur.triage.counts import RefusalCounts, TriageOptions, merge_counts
    from demur.triage.inputs import follow_logs
    from demur.triage.run import triage_logs
    from demur.triage.scan import scan_range
    from demur.triage.suggest import Suggestion, list_suggestions

__all__ = [
    "RefusalCounts",
    "Suggestion",
    "TriageOptions",
    "counts_from_table",
    "follow_logs",
    "list_suggestions",
    "merge_counts",
    "scan_batch",
    "scan_range",
    "to_table",
    "triage_dataframe",
    "triage_logs",
    "triage_on_cluster",
]

_HOMES = {
    "demur.triage.cluster": (
        "counts_from_table",
        "scan_batch",
        "to_table",
        "triage_dataframe",
        "triage_on_cluster",
    ),
    "demur.triage.counts": ("RefusalCounts", "TriageOptions", "merge_counts"),
    "demur.triage.inputs": ("follow_logs",),
    "demur.triage.run": ("triage_logs",),
    "demur.triage.scan": ("scan_range",),
    "demur.triage.suggest": ("Suggestion", "list_suggestions"),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
