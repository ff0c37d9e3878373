"""Do-Not-Answer: questions that should not be answered (`data_en.csv`, or the same as JSON)."""

from demur.evals.importers.layout import Fields, Layout, category_of, id_of, text_of
from demur.evals.importers.records import Record

__all__ = ["LAYOUTS"]

# Do-Not-Answer: questions that should not be answered (`data_en.csv`, or the same as JSON).
# Columns `id, risk_area, types_of_harm, specific_harms, question`, and answers of models that are
# not read: stated by the data card. Rule: all are harmful, as the suite means it; some are mild (a
# chat about feelings), so read misses before counting them.
_CATEGORIES = {
    "discrimination_exclusion_toxicity_hateful_offensive": "hate",
    "human_chatbot_interaction_harms": "advice",
    "information_hazards": "privacy",
    "malicious_uses": "crime",
    "misinformation_harms": "misinformation",
}
_COLUMNS = (frozenset({"risk_area", "types_of_harm", "question"}),)


def _read(record: Record) -> Fields:
    return {
        "id": id_of("do-not-answer", record, "id" if "id" in record.fields else None),
        "prompt": text_of(record, "question"),
        "label": "harmful",
        "category": category_of(text_of(record, "risk_area"), _CATEGORIES),
    }


LAYOUTS = (Layout("do-not-answer", "Do-Not-Answer", _COLUMNS, _read),)
