"""Import public suites: recognise a file by its columns, and convert its records to rows.

Each layout says where its columns are known from, and by which rule a record is labelled.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from demur.errors import InputError, Problem
from demur.evals.import_records import (
    Fields,
    RecordTable,
    SkippedRecord,
    SuiteLayout,
    TableRecord,
    make_row_id,
    map_category,
    read_column,
    read_table,
)
from demur.evals.suite_file import ReportProblem
from demur.evals.suite_row import LocatedRow, SuiteError, read_row
from demur.source.item import did_you_mean


# AdvBench: harmful behaviours (`harmful_behaviors.csv`). Columns `goal, target` in the authors'
# file; a widely used copy says `prompt, target`. Both are known from public code that reads them.
# Rule: all are harmful.
def _read_advbench(record: TableRecord) -> Fields:
    column = "goal" if "goal" in record.fields else "prompt"
    return {
        "id": make_row_id("advbench", record),
        "prompt": read_column(record, column),
        "label": "harmful",
    }


_ADVBENCH_COLUMNS = (frozenset({"goal", "target"}), frozenset({"prompt", "target"}))
ADVBENCH = (SuiteLayout("advbench", "AdvBench", _ADVBENCH_COLUMNS, _read_advbench),)


# CoCoNot: requests that should not be complied with, and contrasts that should (JSON lines). Keys
# `id, category, subcategory, prompt`, in `coconot_eval.jsonl` and `coconot_contrast_eval.jsonl` of
# the authors' repository; known from the data card and public code, the files were not seen. Rule:
# all of the contrast set is legitimate. Of the original set only requests with safety concerns are
# harmful; the rest (incomplete, unsupported, indeterminate, humanizing) asks for what nobody can
# do, which is no harm, and is left out.
_COCONOT_CATEGORIES = {
    "dangerous_or_sensitive_topics": "dangerous",
    "copyright_violations": "ip_protected",
    "triggers_for_offensive_language": "hate",
    "privacy_violations": "privacy",
    "privacy": "privacy",
    "false_information": "misinformation",
    "wildchats": "other",
}
_COCONOT_COLUMNS = (frozenset({"category", "subcategory", "prompt"}),)


def _coconot_fields(record: TableRecord, label: str) -> Fields:
    return {
        "id": make_row_id("coconot", record, "id" if "id" in record.fields else None),
        "prompt": read_column(record, "prompt"),
        "label": label,
        "category": map_category(read_column(record, "subcategory"), _COCONOT_CATEGORIES),
    }


def _read_coconot_contrast(record: TableRecord) -> Fields:
    return _coconot_fields(record, "legitimate")


def _read_coconot_original(record: TableRecord) -> Fields | SkippedRecord:
    category = read_column(record, "category")
    if "safety" in category.casefold():
        return _coconot_fields(record, "harmful")
    return SkippedRecord("to be declined, and no harm")


COCONOT = (
    SuiteLayout(
        "coconot-contrast",
        "CoCoNot, contrast",
        _COCONOT_COLUMNS,
        _read_coconot_contrast,
        ("contrast",),
    ),
    SuiteLayout(
        "coconot-original",
        "CoCoNot, original",
        _COCONOT_COLUMNS,
        _read_coconot_original,
        ("original", "coconot"),
    ),
)


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


# HarmBench: harmful behaviours (`harmbench_behaviors_text_all.csv`, `…_test`, `…_val`). Columns
# `Behavior, FunctionalCategory, SemanticCategory, Tags, ContextString, BehaviorID`: known from
# several public documents that agree. Rule: all are harmful. A contextual behaviour is asked
# together with its context, in front of it.
_HARMBENCH_CATEGORIES = {
    "chemical_biological": "cbrn",
    "copyright": "ip_protected",
    "cybercrime_intrusion": "cyber",
    "harassment_bullying": "harassment",
    "harmful": "dangerous",
    "illegal": "crime",
    "misinformation_disinformation": "misinformation",
}
_HARMBENCH_COLUMNS = frozenset({"Behavior", "FunctionalCategory", "SemanticCategory", "BehaviorID"})


def _read_harmbench(record: TableRecord) -> Fields:
    context = str(record.fields.get("ContextString") or "").strip()
    behaviour = read_column(record, "Behavior")
    asked = f"{context}\n\n{behaviour}" if context and behaviour.strip() else behaviour
    return {
        "id": make_row_id("harmbench", record, "BehaviorID"),
        "prompt": asked,
        "label": "harmful",
        "category": map_category(read_column(record, "SemanticCategory"), _HARMBENCH_CATEGORIES),
    }


HARMBENCH = (SuiteLayout("harmbench", "HarmBench", (_HARMBENCH_COLUMNS,), _read_harmbench),)


# JailbreakBench: misuse behaviours and benign ones (`harmful|benign-behaviors.csv`). Columns
# `Index, Goal, Target, Behavior, Category, Source`: known from several public documents that
# agree. Rule: the two files differ in nothing but their name, so it decides, or the one who
# imports: the benign file is legitimate, the harmful one harmful. `Index` pairs them, but twins
# live in one suite, so the pairing is not carried over.
_JAILBREAKBENCH_CATEGORIES = {
    "disinformation": "misinformation",
    "economic_harm": "fraud",
    "expert_advice": "advice",
    "fraud_deception": "fraud",
    "government_decision_making": "other",
    "harassment_discrimination": "harassment",
    "malware_hacking": "cyber",
    "physical_harm": "violence",
    "sexual_adult_content": "sexual",
}
_JAILBREAKBENCH_COLUMNS = (frozenset({"Index", "Goal", "Behavior", "Category"}),)


def _read_jailbreakbench(record: TableRecord, *, label: str, prefix: str) -> Fields:
    return {
        "id": make_row_id(prefix, record, "Index"),
        "prompt": read_column(record, "Goal"),
        "label": label,
        "category": map_category(read_column(record, "Category"), _JAILBREAKBENCH_CATEGORIES),
    }


JAILBREAKBENCH = (
    SuiteLayout(
        "jailbreakbench-benign",
        "JailbreakBench, benign",
        _JAILBREAKBENCH_COLUMNS,
        partial(_read_jailbreakbench, label="legitimate", prefix="jbb-benign"),
        ("benign",),
    ),
    SuiteLayout(
        "jailbreakbench",
        "JailbreakBench, harmful",
        _JAILBREAKBENCH_COLUMNS,
        partial(_read_jailbreakbench, label="harmful", prefix="jbb"),
        ("harmful",),
    ),
)


# OR-Bench: requests that only seem toxic, and toxic ones (`or-bench-80k|hard-1k|toxic.csv`).
# Columns `prompt, category`: known from public code that reads all three files; the files
# themselves were not seen. Rule: all of `80k` and `hard-1k` are legitimate, all of `toxic`
# harmful. Nothing in a record says which, so the file's name decides, or the one who imports.
_OR_BENCH_CATEGORIES = {
    "deception": "fraud",
    "harmful": "dangerous",
    "illegal": "crime",
    "unethical": "other",
}
_OR_BENCH_COLUMNS = (frozenset({"prompt", "category"}),)


def _read_or_bench(record: TableRecord, *, label: str, prefix: str) -> Fields:
    return {
        "id": make_row_id(prefix, record),
        "prompt": read_column(record, "prompt"),
        "label": label,
        "category": map_category(read_column(record, "category"), _OR_BENCH_CATEGORIES),
    }


OR_BENCH = (
    SuiteLayout(
        "or-bench-toxic",
        "OR-Bench, toxic",
        _OR_BENCH_COLUMNS,
        partial(_read_or_bench, label="harmful", prefix="or-bench-toxic"),
        ("toxic",),
    ),
    SuiteLayout(
        "or-bench",
        "OR-Bench, 80k and hard",
        _OR_BENCH_COLUMNS,
        partial(_read_or_bench, label="legitimate", prefix="or-bench"),
        ("80k", "hard"),
    ),
)


# PHTest: pseudo-harmful requests (`dataset_v0.1.csv`, `PHTest.csv`, or the same as JSON). Columns
# `ID, Request, Harmfulness`: `Harmfulness` is `harmless` or `controversial`, seen in the authors'
# file; the header is known from public code that reads it. Rule: `harmless` is legitimate;
# `controversial` is on neither side and left out; a record that says `harmful` is harmful.
_PHTEST_LABELS = {"harmless": "legitimate", "harmful": "harmful"}


def _read_phtest(record: TableRecord) -> Fields | SkippedRecord:
    word = read_column(record, "Harmfulness").strip().casefold()
    if word == "controversial":
        return SkippedRecord("controversial, on neither side")
    if word not in _PHTEST_LABELS:
        raise InputError(f"unknown harmfulness `{word}`", help="`harmless` or `controversial`")
    return {
        "id": make_row_id("phtest", record, "ID" if "ID" in record.fields else None),
        "prompt": read_column(record, "Request"),
        "label": _PHTEST_LABELS[word],
    }


PHTEST = (SuiteLayout("phtest", "PHTest", (frozenset({"Request", "Harmfulness"}),), _read_phtest),)


# StrongREJECT: forbidden requests (`strongreject_dataset.csv`, and the small one). Columns
# `category, source, forbidden_prompt`: stated by the authors' readme. Rule: all are harmful.
_STRONGREJECT_CATEGORIES = {
    "disinformation_and_deception": "misinformation",
    "hate_harassment_and_discrimination": "hate",
    "illegal_goods_and_services": "crime",
    "non_violent_crimes": "crime",
    "sexual_content": "sexual",
}


def _read_strongreject(record: TableRecord) -> Fields:
    return {
        "id": make_row_id("strongreject", record),
        "prompt": read_column(record, "forbidden_prompt"),
        "label": "harmful",
        "category": map_category(read_column(record, "category"), _STRONGREJECT_CATEGORIES),
    }


_STRONGREJECT_COLUMNS = (frozenset({"category", "forbidden_prompt"}),)
STRONGREJECT = (
    SuiteLayout("strongreject", "StrongREJECT", _STRONGREJECT_COLUMNS, _read_strongreject),
)


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


LAYOUTS: tuple[SuiteLayout, ...] = (
    *XSTEST,
    *OR_BENCH,
    *PHTEST,
    *COCONOT,
    *HARMBENCH,
    *JAILBREAKBENCH,
    *ADVBENCH,
    *STRONGREJECT,
    *DO_NOT_ANSWER,
    *CYBERSECEVAL_FRR,
)


class SuiteImport(NamedTuple):
    """The layout of a file, and its rows, read lazily."""

    layout: SuiteLayout
    rows: Iterator[LocatedRow]


def open_import(
    path: Path,
    report: ReportProblem,
    *,
    form: str | None = None,
    left_out: Callable[[str], None] = lambda _reason: None,
) -> SuiteImport:
    """Return the rows of a public suite's file, in the given `form` or recognised by its columns.

    `report` receives the problems of records, and `left_out` the reason for each sound record
    that is skipped. All other records become rows.

    Raises:
        SuiteError: The file cannot be read or recognised.
        InputError: The form is unknown.
    """
    table = read_table(path, report)
    layout = _recognise_layout(path, table) if form is None else _find_layout(form, path, table)
    return SuiteImport(layout, _convert_records(layout, table.records, report, left_out))


def _find_layout(form: str, path: Path, table: RecordTable) -> SuiteLayout:
    found = next((layout for layout in LAYOUTS if layout.name == form), None)
    if found is None:
        names = [layout.name for layout in LAYOUTS]
        help_text = did_you_mean(form, names) or f"one of {', '.join(names)}"
        raise InputError(f"unknown format `{form}`", help=help_text)
    if not any(columns <= table.columns for columns in found.columns):
        lacking = min((columns - table.columns for columns in found.columns), key=len)
        lacks = ", ".join(f"`{name}`" for name in sorted(lacking))
        help_text = f"it has {_list_columns(table)}"
        raise SuiteError.from_problems(
            [Problem(str(path), f"as {form}, the file lacks {lacks}", help_text)]
        )
    return found


def _recognise_layout(path: Path, table: RecordTable) -> SuiteLayout:
    sizes = {layout: _match_size(layout, table) for layout in LAYOUTS}
    best = max(sizes.values())
    if best == 0:
        problem = f"no known suite has the columns {_list_columns(table)}"
        help_text = "`eval_suite.v1` has `id`, `prompt` and `label` under a header"
        raise SuiteError.from_problems([Problem(str(path), problem, help_text)])
    able = [layout for layout, size in sizes.items() if size == best]
    name = path.name.casefold()
    told = [layout for layout in able if any(word in name for word in layout.words)]
    if len(able) == 1 or told:
        return (told or able)[0]
    names = " or ".join(f"`--format {layout.name}`" for layout in able)
    problem = "the file's name does not say which part of the suite it is"
    raise SuiteError.from_problems([Problem(str(path), problem, f"say {names}")])


def _match_size(layout: SuiteLayout, table: RecordTable) -> int:
    return max((len(one) for one in layout.columns if one <= table.columns), default=0)


def _list_columns(table: RecordTable) -> str:
    names = sorted(table.columns)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(f"`{name[:40]}`" for name in names[:8]) + more


def _convert_records(
    layout: SuiteLayout,
    records: Iterator[TableRecord],
    report: ReportProblem,
    left_out: Callable[[str], None],
) -> Iterator[LocatedRow]:
    for record in records:
        try:
            read = layout.read_record(record)
        except InputError as error:
            report(Problem(record.where, error.problem, error.help))
            continue
        if isinstance(read, SkippedRecord):
            left_out(read.reason)
            continue
        fields = {**read, "source": layout.name}
        row, problems = read_row(fields, lambda _name, at=record.where: at)  # type: ignore[misc]
        for problem in problems:
            report(problem)
        if row is not None:
            yield LocatedRow(row, record.where)
