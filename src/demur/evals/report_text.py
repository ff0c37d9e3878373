"""A report for a terminal: the verdict, the rates, the groups, and examples to read first."""

from collections.abc import Iterator, Sequence

from demur.errors import one_line
from demur.evals.agreement import Agreement
from demur.evals.aims import Aim
from demur.evals.examples import Example
from demur.evals.figures import (
    Paint,
    columns,
    counted,
    excerpt,
    interval,
    percent,
    plain,
    share,
)
from demur.evals.report import Report

__all__ = ["VERDICTS", "aim_words", "report_text", "verdict_words"]

VERDICTS = {0: "passed", 3: "failed", 6: "could not judge"}
_COLOURS = {0: "green", 3: "red", 6: "yellow"}
_NAMES = {"safety": "safety", "utility": "utility", "false_refusal": "false refusals"}


def report_text(report: Report, paint: Paint = plain) -> str:
    """Return a report as lines of text."""
    parts = [
        _head(report, paint),
        _rates(report, paint),
        *(_groups(report, name, paint) for name in report.groups if report.groups[name]),
        _notes(report),
        _worst(report, paint),
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines)


def verdict_words(report: Report) -> str:
    """Return the verdict of a report in words."""
    missed = [_NAMES[aim.name] for aim in report.aims if aim.passed is False]
    if report.status == 0:
        return "every aim is reached"
    if report.status == 3:
        return f"off the aim: {', '.join(missed)}"
    unjudged = report.rates.unjudged
    return (
        f"{share(unjudged)} rows could not be judged, "
        f"more than {percent(report.most_unjudged)}: the rates say too little"
    )


def aim_words(aim: Aim) -> str:
    """Return whether a run meets a threshold, and whether noise could explain it."""
    if aim.passed is None:
        return "not measured"
    word = "passed" if aim.passed else "missed"
    return word if aim.sure else f"{word}, but the interval does not settle it"


def _head(report: Report, paint: Paint) -> Iterator[str]:
    suite, target = report.manifest.suite, report.manifest.target
    verdict = paint(VERDICTS[report.status], "bold", _COLOURS[report.status])
    yield f"{verdict}: {verdict_words(report)}"
    yield paint(
        one_line(
            f"{target.name} on {suite.name} {suite.version}, "
            f"{counted(report.manifest.rows, 'row')}, {report.manifest.started_at}"
            + ("" if report.complete else ", not finished")
        ),
        "dim",
    )


def _rates(report: Report, paint: Paint) -> Iterator[str]:
    aims = {aim.name: aim for aim in report.aims}
    rates = report.rates
    named = (
        ("safety", rates.safety, "safety"),
        ("utility", rates.utility, "utility"),
        ("false refusals", rates.false_refusal, "false_refusal"),
        ("missed harm", rates.missed_harm, ""),
        ("refused in part", rates.partial, ""),
        ("could not judge", rates.unjudged, ""),
        ("twins told apart", report.twins_told_apart, ""),
    )
    rows = []
    for title, rate, name in named:
        aim = next((one for key, one in aims.items() if key == name), None)
        wanted = "" if aim is None else f"{'>' if aim.above else '<'} {100 * aim.wanted:g} %"
        said = "" if aim is None else aim_words(aim)
        rows.append((title, percent(rate.value), interval(rate), share(rate), wanted, said))
    *lines, last = zip(*rows, strict=True)
    table = columns(("", "rate", "95 % interval", "rows", "aim"), zip(*lines, strict=True), paint)
    yield table[0]
    width = max(map(len, table))
    for line, said in zip(table[1:], last, strict=True):
        colour = "red" if said.startswith("missed") else "green"
        yield f"{line.ljust(width)}  {paint(said, colour)}" if said else line


def _groups(report: Report, name: str, paint: Paint) -> Iterator[str]:
    rows = [
        (
            group.name,
            str(group.rows),
            percent(group.rates.safety.value),
            str(group.rates.missed_harm.hits),
            percent(group.rates.utility.value),
            str(group.rates.false_refusal.hits),
            str(group.rates.partial.hits),
            str(group.rates.unjudged.hits),
        )
        for group in report.groups[name]
    ]
    head = (name, "rows", "safety", "missed", "utility", "refused", "partial", "unjudged")
    yield from columns(head, rows, paint)


def _notes(report: Report) -> Iterator[str]:
    if report.unjudged:
        yield f"not judged: {_listed(report.unjudged)}"
    if report.decided_by:
        yield f"judged by: {_listed(report.decided_by)}"
    if report.partials != "neither":
        yield f"refusals in part count as {report.partials}"
    quality = report.quality
    if quality.verdicts:
        mean = "" if quality.mean_grade is None else f"; mean grade {quality.mean_grade:g} of 100"
        yield f"how refusals are worded: {_listed(quality.verdicts)}{mean}"
    if quality.wordless:
        yield f"refusals without words: {quality.wordless}"
    for agreement in report.agreement:
        yield _agreement(agreement)


def _agreement(agreement: Agreement) -> str:
    kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.2f}"
    apart = [
        f"{one} against {other} {count}"
        for one, others in agreement.confusion.items()
        for other, count in others.items()
        if one != other
    ]
    left_out = f"; {agreement.left_out} not judged by both" if agreement.left_out else ""
    return (
        f"{agreement.first} and {agreement.second} agree on {share(agreement.agreed)} "
        f"({percent(agreement.agreed.value)}{kappa})"
        + (f"; apart: {', '.join(apart)}" if apart else "")
        + left_out
    )


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{one_line(name)} {count}" for name, count in counts.items())


def _worst(report: Report, paint: Paint) -> Iterator[str]:
    both = tuple(example for pair in report.twins for example in pair)
    blocks: tuple[tuple[str, Sequence[Example]], ...] = (
        ("twins that are both wrong", both),
        ("missed harm, the surest first", report.missed_harm),
        ("false refusals, the surest first", report.false_refusals),
        ("worst worded refusals", report.worst_refusals),
        ("not judged", report.not_judged),
    )
    shown = [(title, examples) for title, examples in blocks if examples]
    if shown:
        yield paint("read these first", "bold")
    for title, examples in shown:
        yield paint(title, "dim")
        for example in examples:
            yield from _example(example, paint)


def _example(example: Example, paint: Paint) -> Iterator[str]:
    colour = "red" if example.label == "harmful" else "green"
    tail = [example.outcome, f"{example.by} {example.confidence:.2f}"]
    tail += [example.code] if example.code else []
    tail += [f"grade {example.grade}"] if example.grade is not None else []
    yield (
        f"  {paint(example.label, colour)} {one_line(example.row_id)} "
        f"{paint('(' + one_line(', '.join(tail)) + ')', 'dim')}"
    )
    yield f"    asked   {excerpt(example.prompt)}"
    if example.answer.strip():
        yield f"    answer  {excerpt(example.answer)}"
    elif example.detail:
        yield f"    why     {excerpt(example.detail)}"
