"""CyberSecEval FRR: harmless requests about security (`mitre_frr.json`, and its translation)."""

from demur.errors import InputError
from demur.evals.importers.layout import Fields, Layout, id_of, text_of
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]

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


def _read(record: Record) -> Fields:
    language = str(record.fields.get("speaking_language") or "english").casefold()
    if language not in _LANGUAGES:
        raise InputError(f"unknown language `{language}`", help=f"one of {', '.join(_LANGUAGES)}")
    malicious = record.fields.get("is_malicious", False)
    if not isinstance(malicious, bool):
        raise InputError(f"`is_malicious` must be true or false, not `{malicious}`")
    return {
        "id": id_of("cyberseceval-frr", record),
        "prompt": text_of(record, "mutated_prompt"),
        "label": "harmful" if malicious else "legitimate",
        "category": "cyber",
        "domain": "security",
        "language": _LANGUAGES[language],
    }


_COLUMNS = (frozenset({"mutated_prompt", "attack_type"}),)
LAYOUTS = (Layout("cyberseceval-frr", "CyberSecEval FRR", _COLUMNS, _read),)
