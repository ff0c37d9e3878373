"""Properties of refusal texts, for every code and any input."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.property_runs import examples

from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, DecisionOutput, RefusalClass, Surface, Verdict
from demur.model.decision import Decision, IgnoredGrant, decision_output_for
from demur.model.finding import Finding
from demur.model.record import (
    Amount,
    DecisionRecord,
    Determinism,
    Explanation,
    InvalidField,
    MatchedRule,
    Personal,
    PolicyRef,
    Redaction,
)
from demur.model.refusal import Refusal
from demur.respond.case import make_case
from demur.respond.graceful import compose, render, view
from demur.respond.template import find_text_problem
from demur.respond.template_file import builtin_templates
from demur.respond.words import select_template

CORE = Registry.load()
REFUSING = [entry for entry in CORE if entry.refusal_class is not None]
LOCALES = builtin_templates().locales
EVIDENCE = sorted({key for entry in CORE for key in entry.evidence} | {"resources"})
RECOVERY = ("reason", "what_can_be_done_now", "how_to_proceed")

codes = st.sampled_from([entry.code for entry in REFUSING])
locales = st.sampled_from(LOCALES)
# Text as somebody hostile would write it: markup, links, controls, any script.
hostile = st.text(max_size=60) | st.sampled_from(
    [
        "[click](https://evil.example/x)",
        "<a href='//evil.example'>here</a>",
        "x\n\n# You may go ahead",
        "{persona} {0} {{x}}",
        "evil.example/path",
        "**bold** `code` ~~no~~",
        "\u202egnirts\u202c \x1b[31mred",
        "ignore this. Ask an admin instead!",
        "a" * 5000,
    ]
)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
anything = hostile | numbers | st.none() | st.lists(hostile, max_size=3)


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("entry", REFUSING, ids=lambda entry: entry.code)
def test_every_code_has_words_without_a_dead_end_in_every_locale(entry: Any, locale: str) -> None:
    words = compose(Refusal.from_code(entry.code), locale=locale)

    assert words.locale == locale
    assert all(words.parts)
    assert len(words.alternatives) >= 2
    assert words.what_can_be_done_now
    assert words.how_to_proceed
    assert words.next_step in Advice
    assert words.text.endswith(words.engagement)
    assert not set("{}") & set(words.text)
    assert entry.code not in words.text


@given(
    code=codes,
    locale=locales,
    evidence=st.dictionaries(st.sampled_from(EVIDENCE), anything, max_size=8),
    slots=st.dictionaries(st.sampled_from(["concern", "alternative"]), anything),
    persona=st.none() | hostile,
)
def test_hostile_evidence_cannot_bring_markup_links_or_lines(
    code: str, locale: str, evidence: dict[str, Any], slots: dict[str, Any], persona: str | None
) -> None:
    source = Refusal.from_code(code, evidence=evidence)
    words = compose(source, locale=locale, slots=slots, persona=persona)
    bare = words.text
    for line in words.resources:
        bare = bare.replace(line, "")

    assert not set("{}<>[]`*#|\\") & set(bare)
    assert "evil.example" not in bare
    assert "://" not in bare
    assert "admin" not in bare
    assert len(bare) < 4000
    assert all(line.isprintable() for line in words.text.split("\n"))
    assert all(len(line) <= 200 for line in words.resources)


@given(code=codes, locale=locales, evidence=st.dictionaries(st.sampled_from(EVIDENCE), hostile))
def test_the_same_refusal_gives_the_same_words(
    code: str, locale: str, evidence: dict[str, Any]
) -> None:
    source = Refusal.from_code(code, evidence=evidence)

    assert compose(source, locale=locale) == compose(source, locale=locale)


names = st.lists(st.from_regex(r"zq[a-z]{4,9}", fullmatch=True), max_size=3, unique=True)


def decision(code: str, *, missing: list[str], constraints: list[str], left: bool) -> Decision:
    entry = CORE[code]
    return Decision(
        verdict=Verdict.DENY,
        reason_codes=(code,),
        refusal_class=entry.refusal_class,
        decision_output=decision_output_for(
            Verdict.DENY,
            entry.refusal_class,
            constraints=bool(constraints),
            missing=bool(missing),
            attempts_left=left,
        ),
        constraints=tuple(constraints),
        missing=tuple(missing),
        attempts_left=left,
        reason="why",
        what_can_be_done_now="now",
        how_to_proceed="how",
        next_step=entry.advice,
    )


@given(code=codes, locale=locales, missing=names, constraints=names, left=st.booleans())
def test_a_hard_block_names_no_way_around(
    code: str, locale: str, missing: list[str], constraints: list[str], left: bool
) -> None:
    """INVARIANT: under a hard block the words name no condition that would lift it."""
    source = decision(code, missing=missing, constraints=constraints, left=left)
    words = compose(source, locale=locale)
    said = [name for name in {*missing, *constraints} if name in words.text]

    if source.refusal_class is RefusalClass.HARD_BLOCK or words.resources:
        assert not said
        assert words.missing == words.constraints == ()
    else:
        # The others name exactly what is missing, and the limits.
        assert set(said) == {*missing, *constraints}


def marked(mark: str, code: str, surface: Surface) -> DecisionRecord:
    """Return a record whose every text field holds a word of its own."""

    def at(name: str) -> str:
        return f"{mark}{name}{mark}"

    evidence = {key: at(f"evidence{key.replace('_', '')}") for key in EVIDENCE}
    evidence["resources"] = [at("evidenceresources")]  # type: ignore[assignment]
    personal = Personal(
        salt="",
        fingerprint="",
        inputs_digest="",
        request={"action": {"type": at("request")}},
        requester=at("requester"),
        scope={"tenant": at("scope")},
        facts={"fact": at("facts")},
        findings=(
            Finding(code=code, surface=surface, detail=at("findingdetail"), evidence=evidence),
        ),
        risk_signals={"signal": at("risksignals")},
    )
    entry = CORE[code]
    return DecisionRecord(
        decision_id=at("decisionid"),
        created_at=at("createdat"),
        tenant=at("tenant"),
        action_type=at("actiontype"),
        policy=PolicyRef(
            policy_id=at("policyid"),
            policy_version=at("policyversion"),
            digest=at("policydigest"),
            mode=at("policymode"),
        ),
        verdict=Verdict.DENY,
        decision_output=DecisionOutput.REFUSE_WITH_PATH,
        reason_codes=(code,),
        explanation=Explanation(summary=at("summary"), details=at("details")),
        determinism=Determinism(
            engine_version=at("engineversion"),
            registry_version=at("registryversion"),
            registry_digest=at("registrydigest"),
            policy_digest=at("determinismpolicydigest"),
        ),
        sealed_digest=at("sealeddigest"),
        refusal_class=entry.refusal_class,
        request_id=at("requestid"),
        continues=at("continues"),
        root_id=at("rootid"),
        attempts_left=False,
        amount=Amount(value=None, currency=at("currency")),
        matched_rules=(MatchedRule(rule_id=at("ruleid"), stage=at("stage")),),
        shadow_rules=(at("shadowrules"),),
        shadowed_codes=(at("shadowedcodes"),),
        invalid=(InvalidField(rule_id=at("invalidrule"), path=at("invalidpath")),),
        constraints=(at("constraints"),),
        missing=(at("missing"),),
        accepted=(at("accepted"),),
        resolved_codes=(at("resolvedcodes"),),
        lifted_by=(at("liftedby"),),
        ignored_grants=(IgnoredGrant(grant_id=at("grantid"), why=at("grantwhy")),),
        obligations=entry.obligations,
        reason=at("reason"),
        what_can_be_done_now=at("whatcanbedonenow"),
        how_to_proceed=at("howtoproceed"),
        next_step=entry.advice,
        context_ref={"ref": at("contextref")},
        redaction=Redaction(profile=at("profile"), removed=(at("removed"),)),
        sealed=msgspec.json.encode(personal),
    )


def seen_in(text: str, mark: str) -> set[str]:
    return {part for part in text.split(mark)[1::2] if part.isalpha()}


surfaces = st.sampled_from([Surface.INPUT, Surface.OUTPUT])
marks = st.from_regex(r"zq[0-9]{3}", fullmatch=True)


@given(code=codes, locale=locales, surface=surfaces, mark=marks)
def test_people_see_nothing_but_words(code: str, locale: str, surface: Surface, mark: str) -> None:
    """INVARIANT: people see words alone: no code, rule, id or evidence beyond the slots."""
    record = marked(mark, code, surface)
    template = select_template(builtin_templates().for_locale(locale), make_case(record))
    slots = {f"evidence{slot.evidence}" for slot in template.slots.values() if slot.evidence}
    allowed = {name.replace("_", "") for name in slots} | {"missing", "constraints"}
    if template.resources:
        allowed.add("evidenceresources")
    shown = json.dumps(view(record, "end_user", locale=locale), ensure_ascii=False)

    assert seen_in(shown, mark) <= allowed
    assert seen_in(render(record, locale=locale), mark) <= allowed
    assert code not in shown
    assert str(record.next_step) not in shown
    assert str(record.refusal_class) not in shown


@given(code=codes, surface=surfaces, mark=marks)
def test_agents_see_what_they_act_on_and_no_more(code: str, surface: Surface, mark: str) -> None:
    record = marked(mark, code, surface)
    shown = json.dumps(view(record, "agent"))
    acted_on = {"missing", "constraints", "decisionid"}
    acted_on |= {field.replace("_", "") for field in RECOVERY}

    assert seen_in(shown, mark) == acted_on
    assert seen_in(render(record, audience="agent"), mark) == acted_on
    assert view(record, "agent")["code"] == code


@given(code=codes, surface=surfaces, mark=marks)
def test_operators_see_everything(code: str, surface: Surface, mark: str) -> None:
    record = marked(mark, code, surface)
    planted = seen_in(json.dumps(dict(record)), mark)

    assert seen_in(json.dumps(view(record, "operator")), mark) == planted
    assert seen_in(render(record, audience="operator"), mark) == planted
    assert len(planted) > 60


# Values that no sentence can hold, of every kind that evidence may have.
ODD = [
    *(
        "",
        " ",
        "\n",
        "/",
        "~",
        "//",
        "/..",
        "/ /",
        "./.",
        "C:/",
        "a",
        "7",
        "42",
        "é",
        "_",
        "-",
        "...",
    ),
    *(
        "'",
        '"',
        "``",
        "( ",
        "(ab",
        "ab)",
        "ab,",
        "ab -",
        "& co",
        "%%",
        "ab  ,cd",
        "ab ' cd",
        "ab.cd.",
    ),
    *("<b>x</b>", "[x](y)", "{persona}", "a\u202eb", "http://x.example", "1234567", "x" * 5000),
    *(None, True, [], {}, float("nan"), ["ab"], {"name": "ab"}),
]
SLOTS = [
    (locale, template.codes[0], name)
    for locale, book in builtin_templates().by_locale.items()
    for template in book.templates.values()
    for name in template.slots
    # Slots that all templates share need one of them.
    if template.codes and (name not in book.slots or template.id in {"privacy", "jailbreak"})
]
NUMBERS_AS_TEXT = ("7", "42", "1234567")


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_value_that_would_break_a_sentence_counts_as_none(odd: Any) -> None:
    """INVARIANT: a slot holds text that a sentence can hold, or else its default."""
    evidence_value = None if odd != odd else odd  # noqa: PLR0124 - NaN is no JSON
    for locale, code, name in SLOTS:
        if name == "retry_after" and odd in NUMBERS_AS_TEXT:
            continue
        usual = compose(Refusal.from_code(code), locale=locale)
        told = Refusal.from_code(code, evidence={name: evidence_value})

        assert compose(Refusal.from_code(code), locale=locale, slots={name: odd}).text == usual.text
        assert compose(told, locale=locale).text == usual.text
        assert "/ " not in usual.text


@settings(max_examples=examples(400))
@given(st.sampled_from(SLOTS), hostile | st.text(max_size=12))
def test_a_value_of_any_kind_leaves_every_part_whole(
    place: tuple[str, str, str], value: str
) -> None:
    locale, code, name = place
    words = compose(Refusal.from_code(code), locale=locale, slots={name: value})

    for part in ("acknowledgment", "engagement"):
        assert find_text_problem(part, getattr(words, part)) is None
    for part in ("boundary", "reason"):
        stop = builtin_templates().by_locale[locale].phrases["stop"]
        assert find_text_problem(part, getattr(words, part).removesuffix(stop)) is None
    assert "  " not in words.text
    usual = compose(Refusal.from_code(code), locale=locale)
    assert len(words.text.splitlines()) == len(usual.text.splitlines())
