"""A report for a terminal: the verdict, the rates, the groups, and examples to read first."""

from collections.abc import Iterator, Sequence

from demur.errors import one_line
from demur.evals.figures import (
    PaintText,
    align_columns,
    format_count,
    format_interval,
    format_percent,
    format_share,
    make_excerpt,
    without_style,
)
from demur.evals.rates import Agreement, Rate, ThresholdCheck
from demur.evals.report import EvalReport, ReportExample

VERDICTS = {0: "passed", 3: "failed", 6: "could not judge"}
_STATUS_COLOURS = {0: "green", 3: "red", 6: "yellow"}
_CHECK_NAMES = {"safety": "safety", "utility": "utility", "false_refusal": "false refusals"}


def report_text(report: EvalReport, paint: PaintText = without_style) -> str:
    """Return a report as lines of text."""
    parts = [
        _head_lines(report, paint),
        _rate_lines(report, paint),
        *(_group_lines(report, name, paint) for name in report.groups if report.groups[name]),
        (*note_lines(report), *map(agreement_line, report.agreement)),
        _worst_lines(report, paint),
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines)


def describe_verdict(report: EvalReport) -> str:
    """Return the verdict of a report in words."""
    missed = [_CHECK_NAMES[aim.name] for aim in report.aims if aim.passed is False]
    if report.status == 0:
        return "every aim is reached"
    if report.status == 3:
        return f"off the aim: {', '.join(missed)}"
    unjudged, most = format_share(report.rates.unjudged), format_percent(report.most_unjudged)
    return f"{unjudged} rows could not be judged, more than {most}: the rates say too little"


def describe_check(check: ThresholdCheck) -> str:
    """Return whether a run meets a threshold, and whether noise could explain it."""
    if check.passed is None:
        return "not measured"
    word = "passed" if check.passed else "missed"
    return word if check.sure else f"{word}, but the interval does not settle it"


def _head_lines(report: EvalReport, paint: PaintText) -> Iterator[str]:
    suite, target = report.manifest.suite, report.manifest.target
    verdict = paint(VERDICTS[report.status], "bold", _STATUS_COLOURS[report.status])
    yield f"{verdict}: {describe_verdict(report)}"
    what = f"{target.name} on {suite.name} {suite.version}"
    parts = [what, format_count(report.manifest.rows, "row"), report.manifest.started_at]
    parts += [] if report.complete else ["not finished"]
    yield paint(one_line(", ".join(parts)), "dim")


def rate_rows(report: EvalReport) -> list[tuple[str, Rate, ThresholdCheck | None]]:
    """Return the title and rate of each row of the report, with its threshold if it has one."""
    checks: dict[str, ThresholdCheck] = {check.name: check for check in report.aims}
    rates, warned = report.rates, report.held_or_warned.items()
    return [
        ("safety", rates.safety, checks["safety"]),
        ("utility", rates.utility, checks["utility"]),
        ("false refusals", rates.false_refusal, checks["false_refusal"]),
        ("missed harm", rates.missed_harm, None),
        ("refused in part", rates.partial, None),
        ("could not judge", rates.unjudged, None),
        ("twins told apart", report.twins_separated, None),
        *((f"{label}, held or warned", rate, None) for label, rate in warned),
    ]


def _rate_lines(report: EvalReport, paint: PaintText) -> Iterator[str]:
    rows, words = [], []
    for title, rate, check in rate_rows(report):
        threshold = "" if check is None else f"{'<>'[check.above]} {100 * check.wanted:g} %"
        numbers = (format_percent(rate.value), format_interval(rate), format_share(rate))
        rows.append((title, *numbers, threshold))
        words.append("" if check is None else describe_check(check))
    head, *lines = align_columns(("", "rate", "95 % interval", "rows", "aim"), rows, paint)
    yield head
    width = max(map(len, (head, *lines)))
    for line, word in zip(lines, words, strict=True):
        colour = "red" if word.startswith("missed") else "green"
        yield f"{line.ljust(width)}  {paint(word, colour)}" if word else line


def _group_lines(report: EvalReport, name: str, paint: PaintText) -> Iterator[str]:
    rows = []
    for group in report.groups[name]:
        rates = group.rates
        safety = (format_percent(rates.safety.value), str(rates.missed_harm.hits))
        utility = (format_percent(rates.utility.value), str(rates.false_refusal.hits))
        others = (str(rates.partial.hits), str(rates.unjudged.hits))
        rows.append((group.name, str(group.rows), *safety, *utility, *others))
    head = (name, "rows", "safety", "missed", "utility", "refused", "partial", "unjudged")
    yield from align_columns(head, rows, paint)


def note_lines(report: EvalReport) -> Iterator[str]:
    """Yield how the run was judged, and how refusals are worded."""
    if report.unjudged:
        yield f"not judged: {_format_counts(report.unjudged)}"
    if report.decided_by:
        yield f"judged by: {_format_counts(report.decided_by)}"
    if report.partials != "neither":
        yield f"refusals in part count as {report.partials}"
    quality = report.quality
    if quality.verdicts:
        mean = "" if quality.mean_grade is None else f"; mean grade {quality.mean_grade:g} of 100"
        yield f"how refusals are worded: {_format_counts(quality.verdicts)}{mean}"
    if quality.wordless:
        yield f"refusals without words: {quality.wordless}"


def agreement_line(agreement: Agreement) -> str:
    """Return how far two judges agree, in one line."""
    kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.2f}"
    apart = [
        f"{one} against {other} {count}"
        for one, others in agreement.confusion.items()
        for other, count in others.items()
        if one != other
    ]
    share, percent = format_share(agreement.agreed), format_percent(agreement.agreed.value)
    parts = [f"{agreement.first} and {agreement.second} agree on {share} ({percent}{kappa})"]
    parts += [f"apart: {', '.join(apart)}"] if apart else []
    parts += [f"{agreement.left_out} not judged by both"] if agreement.left_out else []
    return "; ".join(parts)


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{one_line(name)} {count}" for name, count in counts.items())


def example_blocks(report: EvalReport) -> list[tuple[str, Sequence[ReportExample]]]:
    """Return the titles and examples of the report's non-empty blocks of examples."""
    both = tuple(example for pair in report.twins for example in pair)
    blocks: tuple[tuple[str, Sequence[ReportExample]], ...] = (
        ("twins that are both wrong", both),
        ("missed harm, the surest first", report.missed_harm),
        ("false refusals, the surest first", report.false_refusals),
        ("worst worded refusals", report.worst_refusals),
        ("not judged", report.not_judged),
    )
    return [(title, examples) for title, examples in blocks if examples]


def _worst_lines(report: EvalReport, paint: PaintText) -> Iterator[str]:
    blocks = example_blocks(report)
    if blocks:
        yield paint("read these first", "bold")
    for title, examples in blocks:
        yield paint(title, "dim")
        for example in examples:
            yield from _example_lines(example, paint)


def _example_lines(example: ReportExample, paint: PaintText) -> Iterator[str]:
    colour = "red" if example.label == "harmful" else "green"
    tail = [example.outcome, f"{example.by} {example.confidence:.2f}"]
    tail += [example.code] if example.code else []
    tail += [f"warned: {' '.join(example.warnings)}"] if example.warnings else []
    tail += [f"grade {example.grade}"] if example.grade is not None else []
    facts = paint(f"({one_line(', '.join(tail))})", "dim")
    yield f"  {paint(example.label, colour)} {one_line(example.row_id)} {facts}"
    yield f"    asked   {make_excerpt(example.prompt)}"
    if example.answer.strip():
        yield f"    answer  {make_excerpt(example.answer)}"
    elif example.detail:
        yield f"    why     {make_excerpt(example.detail)}"
