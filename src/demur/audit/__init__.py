"""Past decisions: pack, report, replay and compare them with another policy."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.audit.anchors import ChainAnchor, append_anchor, read_anchor, write_anchor
    from demur.audit.diff import DecisionChange, PolicyComparison, Unreplayable, compare_policy
    from demur.audit.pack import (
        Pack,
        PackError,
        read_line,
        read_lines,
        read_pack,
        write_line,
        write_pack,
    )
    from demur.audit.parquet_folder import ParquetError, ParquetExport, export_parquet
    from demur.audit.parquet_rows import parquet_schema
    from demur.audit.period_report import PeriodReport, build_period_report
    from demur.audit.replay import ReplayResult, check_heads, replay_pack
    from demur.audit.report import DecisionReport, export_pack, render_ticket, report_decision

__all__ = [
    "ChainAnchor",
    "DecisionChange",
    "DecisionReport",
    "Pack",
    "PackError",
    "ParquetError",
    "ParquetExport",
    "PeriodReport",
    "PolicyComparison",
    "ReplayResult",
    "Unreplayable",
    "append_anchor",
    "build_period_report",
    "check_heads",
    "compare_policy",
    "export_pack",
    "export_parquet",
    "parquet_schema",
    "read_anchor",
    "read_line",
    "read_lines",
    "read_pack",
    "render_ticket",
    "replay_pack",
    "report_decision",
    "write_anchor",
    "write_line",
    "write_pack",
]

_HOMES = {
    "demur.audit.anchors": "ChainAnchor append_anchor read_anchor write_anchor",
    "demur.audit.diff": "DecisionChange PolicyComparison Unreplayable compare_policy",
    "demur.audit.pack": "Pack PackError read_line read_lines read_pack write_line write_pack",
    "demur.audit.parquet_folder": "ParquetError ParquetExport export_parquet",
    "demur.audit.parquet_rows": "parquet_schema",
    "demur.audit.period_report": "PeriodReport build_period_report",
    "demur.audit.replay": "ReplayResult check_heads replay_pack",
    "demur.audit.report": "DecisionReport export_pack render_ticket report_decision",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
