"""Properties of the refusal linter."""

from hypothesis import given
from hypothesis import strategies as st

from demur.codes.registry import Registry
from demur.respond.lint import _worst_verdict, lint_refusal
from demur.respond.lint_report import LINT_RULES, RefusalProblem, RefusalVerdict
from demur.text.prose import prepare_text

CODES = [str(entry.code) for entry in Registry.load()]
PIECES = st.sampled_from(
    [
        "I can't help with that. ",
        "I understand that you're upset, ",
        "because it is hers. ",
        "I can draft a letter:\n- one\n- two\n\n",
        "What happened? ",
        "You should be ashamed. ",
        "ERROR: Access refused. ",
        '"quoted" ',
        "REFUSED: RCE_RISK: x\n",
        "Ich kann dabei nicht helfen. ",
        "申し訳ありませんが、できません。",
        "e\u0301\u200b",
        "\ud800",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=30), max_size=12).map("".join)
LOCALES = st.none() | st.sampled_from(["en", "de", "es", "fr", "ja", "xx"])
PROBLEMS = st.sampled_from(sorted(LINT_RULES)).map(
    lambda rule: RefusalProblem(rule=rule, message="m", help="h")
)


@given(TEXTS, st.none() | st.sampled_from(CODES), LOCALES)
def test_any_text_gets_a_report_whose_spans_lie_in_it(
    text: str, code: str | None, locale: str | None
) -> None:
    report = lint_refusal(text, code, locale)

    spans = [found.span for found in report.parts]
    spans += [problem.span for problem in report.problems if problem.span is not None]
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert report == lint_refusal(text, code, locale)
    graceful = report.verdict is RefusalVerdict.GRACEFUL
    assert not (graceful and report.problems)
    assert report.score is None or 0 <= report.score <= 100


@given(TEXTS)
def test_sentences_are_apart_and_in_order(text: str) -> None:
    looked = prepare_text(text)

    at = 0
    for sentence in looked.sentences:
        assert at <= sentence.start < sentence.end <= len(looked.folded)
        at = sentence.end


@given(st.lists(PROBLEMS), PROBLEMS, st.booleans())
def test_one_more_problem_never_makes_the_verdict_milder(
    problems: list[RefusalProblem], more: RefusalProblem, judged: bool
) -> None:
    """INVARIANT: one more problem never makes the verdict milder."""
    order = list(RefusalVerdict)
    before = _worst_verdict(problems, judged=judged)
    after = _worst_verdict([*problems, more], judged=judged)

    assert order.index(after) <= order.index(before)
