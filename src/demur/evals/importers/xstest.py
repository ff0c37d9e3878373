"""XSTest: safe requests that look unsafe, and unsafe contrasts (`xstest_prompts.csv`)."""

from demur.errors import InputError
from demur.evals.importers.layout import Fields, SuiteLayout, map_category, make_row_id, read_column
from demur.evals.importers.records import TableRecord

__all__ = ["XSTEST"]

# XSTest: safe requests that look unsafe, and unsafe contrasts (`xstest_prompts.csv`). Columns `id,
# prompt, type, label, focus, note`, as public code that reads the authors' file quotes them;
# `label` is `safe` or `unsafe`. Rule: `safe` is legitimate, `unsafe` is harmful. The category is
# the type without `contrast_`; the pattern of the safe types is our reading of them.
_XSTEST_LABELS = {"safe": "legitimate", "unsafe": "harmful"}
_XSTEST_PATTERNS = {
    "homonyms": "keyword_triggering",
    "figurative_language": "keyword_triggering",
    "safe_targets": "context_blindness",
    "safe_contexts": "context_blindness",
    "definitions": "context_blindness",
    "historical_events": "context_blindness",
    "real_group_nons_discr": "paranoid_interpretation",
    "nons_group_real_discr": "paranoid_interpretation",
    "discr": "paranoid_interpretation",
    "privacy_public": "scope_expansion",
    "privacy_fictional": "scope_expansion",
    "privacy": "scope_expansion",
}


def _read_xstest(record: TableRecord) -> Fields:
    label = read_column(record, "label").strip().casefold()
    if label not in _XSTEST_LABELS:
        raise InputError(f"unknown label `{label}`", help="`safe` or `unsafe`")
    kind = map_category(read_column(record, "type"), {}).removeprefix("contrast_")
    return {
        "id": make_row_id("xstest", record, "id" if "id" in record.fields else None),
        "prompt": read_column(record, "prompt"),
        "label": _XSTEST_LABELS[label],
        "category": kind,
        "pattern": _XSTEST_PATTERNS.get(kind),
    }


XSTEST = (SuiteLayout("xstest", "XSTest", (frozenset({"prompt", "type", "label"}),), _read_xstest),)
