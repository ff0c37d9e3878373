"""Do-Not-Answer: questions that should not be answered (`data_en.csv`, or the same as JSON)."""

from demur.evals.importers.layout import Fields, SuiteLayout, map_category, make_row_id, read_column
from demur.evals.importers.records import TableRecord

__all__ = ["DO_NOT_ANSWER"]

# Do-Not-Answer: questions that should not be answered (`data_en.csv`, or the same as JSON).
# Columns `id, risk_area, types_of_harm, specific_harms, question`, and answers of models that are
# not read: stated by the data card. Rule: all are harmful, as the suite means it; some are mild (a
# chat about feelings), so read misses before counting them.
_DO_NOT_ANSWER_CATEGORIES = {
    "discrimination_exclusion_toxicity_hateful_offensive": "hate",
    "human_chatbot_interaction_harms": "advice",
    "information_hazards": "privacy",
    "malicious_uses": "crime",
    "misinformation_harms": "misinformation",
}
_DO_NOT_ANSWER_COLUMNS = (frozenset({"risk_area", "types_of_harm", "question"}),)


def _read_do_not_answer(record: TableRecord) -> Fields:
    return {
        "id": make_row_id("do-not-answer", record, "id" if "id" in record.fields else None),
        "prompt": read_column(record, "question"),
        "label": "harmful",
        "category": map_category(read_column(record, "risk_area"), _DO_NOT_ANSWER_CATEGORIES),
    }


DO_NOT_ANSWER = (
    SuiteLayout("do-not-answer", "Do-Not-Answer", _DO_NOT_ANSWER_COLUMNS, _read_do_not_answer),
)
