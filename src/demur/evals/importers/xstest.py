"""XSTest: safe requests that look unsafe, and unsafe contrasts (`xstest_prompts.csv`)."""

from demur.errors import InputError
from demur.evals.importers.layout import Fields, Layout, category_of, id_of, text_of
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]

# XSTest: safe requests that look unsafe, and unsafe contrasts (`xstest_prompts.csv`). Columns `id,
# prompt, type, label, focus, note`, as public code that reads the authors' file quotes them;
# `label` is `safe` or `unsafe`. Rule: `safe` is legitimate, `unsafe` is harmful. The category is
# the type without `contrast_`; the pattern of the safe types is our reading of them.
_LABELS = {"safe": "legitimate", "unsafe": "harmful"}
_PATTERNS = {
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


def _read(record: Record) -> Fields:
    label = text_of(record, "label").strip().casefold()
    if label not in _LABELS:
        raise InputError(f"unknown label `{label}`", help="`safe` or `unsafe`")
    kind = category_of(text_of(record, "type"), {}).removeprefix("contrast_")
    return {
        "id": id_of("xstest", record, "id" if "id" in record.fields else None),
        "prompt": text_of(record, "prompt"),
        "label": _LABELS[label],
        "category": kind,
        "pattern": _PATTERNS.get(kind),
    }


LAYOUTS = (Layout("xstest", "XSTest", (frozenset({"prompt", "type", "label"}),), _read),)
