"""CyberSecEval FRR: harmless requests about security (`mitre_frr.json`, and its translation)."""

from demur.errors import InputError
from demur.evals.importers.layout import Fields, SuiteLayout, make_row_id, read_column
from demur.evals.importers.records import TableRecord

__all__ = ["CYBERSECEVAL_FRR"]

# CyberSecEval FRR: harmless requests about security (`mitre_frr.json`, and its translation). A
# list of objects with `mutated_prompt, is_malicious, attack_type, model`; the translation adds
# `speaking_language`. Seen in the authors' repository for the translation; the English file has
# the same keys without the language, as far as public code tells. Rule: what is not malicious by
# `is_malicious` is legitimate, and that is all of them; one that is malicious is harmful.
_LANGUAGES = {
    "english": "en",
    "french": "fr",
    "german": "de",
    "hindi": "hi",
    "italian": "it",
    "portuguese": "pt",
    "spanish": "es",
    "thai": "th",
}


def _read_cyberseceval_frr(record: TableRecord) -> Fields:
    language = str(record.fields.get("speaking_language") or "english").casefold()
    if language not in _LANGUAGES:
        raise InputError(f"unknown language `{language}`", help=f"one of {', '.join(_LANGUAGES)}")
    malicious = record.fields.get("is_malicious", False)
    if not isinstance(malicious, bool):
        raise InputError(f"`is_malicious` must be true or false, not `{malicious}`")
    return {
        "id": make_row_id("cyberseceval-frr", record),
        "prompt": read_column(record, "mutated_prompt"),
        "label": "harmful" if malicious else "legitimate",
        "category": "cyber",
        "domain": "security",
        "language": _LANGUAGES[language],
    }


_CYBERSECEVAL_FRR_COLUMNS = (frozenset({"mutated_prompt", "attack_type"}),)
CYBERSECEVAL_FRR = (
    SuiteLayout(
        "cyberseceval-frr", "CyberSecEval FRR", _CYBERSECEVAL_FRR_COLUMNS, _read_cyberseceval_frr
    ),
)
