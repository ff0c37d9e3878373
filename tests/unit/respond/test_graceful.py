from collections.abc import Callable
from typing import Any

import pytest
from support.gates import finding, opened, refund

from demur.classification import make_decision
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, Surface, Verdict
from demur.errors import InputError
from demur.guards.text_rules import builtin_rules, language_rules
from demur.model.refusal import Refusal
from demur.respond.case import Audience, ComposeSource
from demur.respond.graceful import compose, render, render_samples, view
from demur.respond.lint import lint_refusal
from demur.respond.lint_report import RefusalPart
from demur.respond.template_file import BUILTIN_LOCALES, builtin_templates
from demur.respond.words import FiveParts, GracefulRefusal, RewordResult

DELETE = Refusal.from_code(
    "DESTRUCTIVE_ACTION", "rm -rf /srv/data", evidence={"target": "/srv/data", "command": "rm"}
)


def test_five_parts_and_a_way_on() -> None:
    words = compose(DELETE)

    assert words.text == (
        "I see you'd like /srv/data gone. I can't run a step that removes /srv/data for good, "
        "because nothing could bring it back.\n"
        "I can list what would be deleted, move it to a folder you can empty later, or make a "
        "copy first. Which would you like?"
    )
    assert words.parts == FiveParts(
        acknowledgment="I see you'd like /srv/data gone.",
        boundary="I can't run a step that removes /srv/data for good.",
        reason="Nothing could bring it back.",
        alternatives=(
            "list what would be deleted",
            "move it to a folder you can empty later",
            "make a copy first",
        ),
        engagement="Which would you like?",
    )
    assert words.what_can_be_done_now.startswith("I can list what would be deleted, ")
    assert words.how_to_proceed.startswith("Tell me what you want to achieve")
    assert words.next_step is Advice.CHANGE_REQUEST
    assert words.line == "REFUSED: DESTRUCTIVE_ACTION: rm -rf /srv/data"
    assert (words.locale, words.template, words.audience) == ("en", "destructive", "end_user")
    assert str(words) == render(DELETE) == words.text


def test_a_workflow_block_names_what_is_missing_as_a_checklist() -> None:
    decided = make_decision(
        Verdict.ESCALATE,
        ["MISSING_EVIDENCE_REFUND"],
        missing=["evidence.ticket_id", "evidence.receipt_scan", "evidence.ticket_id2"],
    )
    words = compose(decided)

    assert "What's still needed:\n- ticket number\n- receipt scan\n- ticket id2\n\n" in words.text
    assert words.text.endswith("Can you send me that, or tell me who could?")
    assert words.what_can_be_done_now == (
        "What's still needed: ticket number, receipt scan, ticket id2"
    )


def test_a_soft_block_states_the_limits_that_make_it_possible() -> None:
    decided = make_decision(
        Verdict.DENY, ["DESTRUCTIVE_ACTION"], constraints=["dry_run", "≤ 5 files"]
    )
    words = compose(decided, locale="de")

    assert (
        "In diesen Grenzen ist es möglich:\n"
        "- zuerst ein Probelauf, nichts wird verändert\n- ≤ 5 files\n"
    ) in words.text
    assert words.next_step is Advice.ACCEPT_CONSTRAINTS


def test_an_action_within_limits_asks_to_start() -> None:
    decided = make_decision(Verdict.ALLOW, ["DESTRUCTIVE_ACTION"], constraints=["dry_run"])

    assert render(decided).endswith("Shall I start?")


def test_somebody_in_need_is_met_with_warmth_and_help_first() -> None:
    seen = Refusal.from_code("CRISIS_ESCALATION")
    given = ["call 988", {"name": "A", "contact": "1"}]
    first, listed, last = render(seen, resources=given).split("\n\n")

    assert first.startswith("I'm really glad you told me")
    assert listed == "These people are there to listen:\n- call 988\n- A: 1"
    assert last.endswith("Are you safe right now?")
    assert "findahelpline" in render(Refusal.from_code("CRISIS_ESCALATION"))


@pytest.mark.parametrize("code", ["CRISIS_ESCALATION", "CONTENT_SELF_HARM"])
def test_nobody_in_need_is_sent_where_a_strangers_refusal_says(code: str) -> None:
    stranger = Refusal.from_code(
        code, evidence={"resources": ["Crisis line: https://evil.example/pay"]}
    )

    words = render(stranger)

    assert "evil" not in words
    assert words == render(Refusal.from_code(code))


def test_common_branches_do_not_touch_the_words_for_somebody_in_need() -> None:
    seen = Refusal.from_code("CRISIS_ESCALATION", surface=Surface.OUTPUT)

    assert render(seen, slots={"concern": "money"}) == render(
        Refusal.from_code("CRISIS_ESCALATION")
    )


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        (
            {"alternative": "draft a note to the landlord"},
            "I can draft a note to the landlord, help you write down what happened",
        ),
        (
            {"alternative": "draft a note", "goal": "get some quiet"},
            "I can draft a note to help you get some quiet, help you write",
        ),
        ({"concern": "the noise at night"}, "you're worried about the noise at night. I can't"),
        ({"target": "your neighbour"}, "prying into the private life of your neighbour, because"),
        ({}, "prying into the private life of someone, because"),
        ({"act": "reading your sister's diary"}, "I can't help with reading your sister's diary"),
        ({"concern": "x. Do it now!"}, "I understand you'd like to know"),
    ],
)
def test_branches_follow_what_is_known(slots: dict[str, Any], said: str) -> None:
    assert said in render(Refusal.from_code("CONTENT_PRIVACY"), slots=slots)


def test_a_concern_and_an_alternative_go_together() -> None:
    slots = {"concern": "the noise", "alternative": "draft a note"}
    text = render(Refusal.from_code("CONTENT_PRIVACY"), slots=slots)

    assert text.startswith("It sounds like you're worried about the noise.")
    assert "I can draft a note, " in text
    assert text.endswith("Would that get you where you want to be?")


def test_an_answer_that_was_held_back_is_acknowledged() -> None:
    text = render(Refusal.from_code("CONTENT_CYBER", surface=Surface.OUTPUT))

    assert text.startswith("I see what you're after, and I had started on an answer.")


def test_the_persona_keeps_its_name() -> None:
    source = Refusal.from_code("JAILBREAK_WRAPPER")

    assert render(source, persona="Milo").startswith("I'm Milo, I see the set-up, and")
    assert "Milo" not in render(source, persona="Milo {x}")


def test_a_wait_is_stated_in_the_language_of_the_reader() -> None:
    source = Refusal.from_code("RATE_LIMIT", evidence={"retry_after": 12.2})

    assert "for 13 seconds," in render(source)
    assert "in 13 Sekunden annehmen" in render(source, locale="de-AT")
    assert "あと13秒は" in render(source, locale="ja")


def test_japanese_joins_the_reason_in_its_own_order() -> None:
    words = compose(Refusal.from_code("CONTENT_WEAPONS"), locale="ja")

    assert words.text == (
        "この分野に関心があるのですね。人の命に関わるため、武器の作り方や入手方法はお伝えできません。\n"
        "歴史や法律の説明、または物理や化学の一般的な説明ならできます。"
        "関心を持ったきっかけは何ですか\N{FULLWIDTH QUESTION MARK}"
    )
    assert words.reason == "人の命に関わる。"


def test_an_agent_reads_the_line_first_and_then_what_to_do() -> None:
    words = compose(DELETE, audience="agent")
    lines = words.text.splitlines()

    assert lines[0] == words.line
    assert "advice: change_request" in lines
    assert "retry_scope: call" in lines
    assert words.audience is Audience.AGENT


def test_an_operator_reads_words_and_facts() -> None:
    text = render(DELETE, audience="operator")

    assert text.startswith(render(DELETE))
    assert 'evidence: {"target":"/srv/data","command":"rm"}' in text


def test_unknown_slots_are_an_error() -> None:
    with pytest.raises(InputError, match="unknown slot `concen`") as caught:
        compose(DELETE, slots={"concen": "x"})

    assert caught.value.help == "did you mean `concern`?"
    with pytest.raises(InputError) as caught:
        compose(DELETE, slots={"zzz": "x"})
    assert caught.value.help is not None
    assert caught.value.help.startswith("one of act, alternative, approver")


def test_words_are_only_reworded_under_a_check() -> None:
    with pytest.raises(InputError, match="under a `check`"):
        compose(DELETE, polish=str)


def test_at_most_a_dozen_things_are_listed_and_each_once() -> None:
    named = [f"field_{chr(97 + n)}" for n in range(20)]
    decided = make_decision(Verdict.ESCALATE, ["CONTEXT_MISSING"], missing=named)

    assert len(compose(decided).missing) == 12


def test_a_missing_item_with_an_unsafe_name_is_still_counted() -> None:
    source = Refusal.from_code(
        "CONTEXT_MISSING", evidence={"missing": ["[x](https://y)", "order_id"]}
    )

    assert compose(source).missing == ("one more detail", "order number")


LIMITED = Refusal.from_code("RATE_LIMIT", evidence={"retry_after": 7, "limit": 5})


def test_people_get_words() -> None:
    seen = view(LIMITED, "end_user", locale="fr-CA")

    assert seen["locale"] == "fr"
    assert "7 secondes" in seen["text"]
    assert not {"code", "line", "advice", "next_step", "evidence"} & set(seen)


def test_agents_get_what_they_act_on() -> None:
    assert view(LIMITED, "agent") == {
        "code": "RATE_LIMIT",
        "refusal_class": "WORKFLOW_BLOCK",
        "decided": True,
        "advice": "retry_later",
        "retry_scope": "session",
        "missing": [],
        "constraints": [],
        "line": "REFUSED: RATE_LIMIT: ",
        "retry_after": 7,
    }


@pytest.mark.parametrize("wait", ["7", True, None])
def test_a_wait_that_is_no_number_is_kept_from_agents(wait: object) -> None:
    source = Refusal.from_code("RATE_LIMIT", evidence={"retry_after": wait})

    assert "retry_after" not in view(source, "agent")


def test_a_decision_brings_its_recovery_to_agents() -> None:
    decided = make_decision(Verdict.ESCALATE, ["CONTEXT_MISSING"], missing=["order_id"])
    seen = view(decided, "agent")

    assert seen["decision_output"] == "NEED_CONTEXT"
    assert seen["missing"] == ["order_id"]
    assert seen["what_can_be_done_now"] == "Supply what is missing: order_id."
    assert seen["attempts_left"] is True


def test_operators_get_the_whole_record_and_the_words() -> None:
    with opened() as gate:
        record = gate.decide(refund(), findings=[finding(evidence={"command": "curl | sh"})])
    seen = view(record, "operator")

    assert {key: seen[key] for key in record} == dict(record)
    assert seen["findings"][0]["evidence"] == {"command": "curl | sh"}
    assert seen["words"] == view(record, "end_user")
    assert seen["code"] == "RCE_RISK"


def test_a_view_for_an_unknown_audience_is_an_error() -> None:
    with pytest.raises(InputError, match="unknown audience `everyone`"):
        view(LIMITED, "everyone")


def test_a_view_takes_the_settings_of_the_words() -> None:
    source = Refusal.from_code("JAILBREAK_WRAPPER")

    assert view(source, "end_user", persona="Milo")["text"].startswith("I'm Milo")
    crisis = view(Refusal.from_code("CRISIS_ESCALATION"), "end_user", resources=["call 988"])
    assert crisis["resources"] == ["call 988"]


SOURCE = Refusal.from_code("TOOL_NOT_ALLOWED", evidence={"tool": "send_email"})
GOOD = "Happy to help otherwise: send_email isn't open for this yet. Shall I draft it for you?"


def no_problem(_text: str, _source: object) -> list[str]:
    return []


def polish(reword: Callable[[GracefulRefusal], str]) -> GracefulRefusal:
    return compose(SOURCE, polish=reword, check=no_problem)


def test_words_that_keep_every_fact_are_taken() -> None:
    words = polish(lambda _: GOOD)

    assert words.text == GOOD
    assert words.polish == RewordResult(accepted=True)
    assert words.boundary == compose(SOURCE).boundary


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Shall I draft it?", "leaves out `send_email`"),
        (f"{GOOD} TOOL_NOT_ALLOWED", "shows the code `TOOL_NOT_ALLOWED`"),
        ("", "no text"),
        (None, "no text"),
        (GOOD * 30, "much longer"),
    ],
)
def test_words_that_lose_something_are_not(text: str, problem: str) -> None:
    words = polish(lambda _: text)

    assert words.text == compose(SOURCE).text
    assert words.polish is not None
    assert not words.polish.accepted
    assert problem in words.polish.problems[0]


def test_words_that_the_check_objects_to_are_not() -> None:
    def check(text: str, source: object) -> list[str]:
        assert (text, source) == (GOOD, SOURCE)
        return ["too\nloud"]

    words = compose(SOURCE, polish=lambda _: GOOD, check=check)

    assert words.text == compose(SOURCE).text
    assert words.polish == RewordResult(accepted=False, problems=("too\\nloud",))


def test_a_model_that_fails_changes_nothing() -> None:
    def fails(_: GracefulRefusal) -> str:
        raise ConnectionError

    words = polish(fails)

    assert words.text == compose(SOURCE).text
    assert words.polish is not None
    assert words.polish.problems == ("the rewording failed: ConnectionError",)


def test_help_lines_and_lists_are_facts() -> None:
    crisis = Refusal.from_code("CRISIS_ESCALATION")
    missing = make_decision(Verdict.ESCALATE, ["CONTEXT_MISSING"], missing=["order_id"])

    assert compose(crisis, resources=["call 988"]).facts == ("call 988",)
    assert compose(missing).facts == ("order number",)


def test_an_operator_sees_the_polished_words_too() -> None:
    words = compose(SOURCE, audience="operator", polish=lambda _: GOOD, check=no_problem)

    assert words.text.startswith(GOOD)


REFUSING = [entry for entry in Registry.load() if entry.refusal_class is not None]
SLOTS = {
    "en": {"concern": "the noise at night", "alternative": "draft a note to the landlord"},
    "de": {"concern": "der Lärm in der Nacht", "alternative": "einen Brief entwerfen"},
    "es": {"concern": "el ruido de noche", "alternative": "redactar una nota"},
    "fr": {"concern": "le bruit la nuit", "alternative": "rédiger un mot"},
    "ja": {"concern": "夜の騒音", "alternative": "手紙の下書き"},
}


def complaints(source: ComposeSource, locale: str, **settings: Any) -> list[str]:
    words = compose(source, locale=locale, **settings)
    found = lint_refusal(words.text, source, locale).problems
    return [f"{words.template}: {problem.rule}: {problem.message}" for problem in found]


def test_the_samples_cover_every_template_of_every_locale() -> None:
    said = {(sample.refusal.locale, sample.refusal.template) for sample in render_samples()}
    books = builtin_templates().by_locale

    assert said == {(name, one) for name, book in books.items() for one in book.templates}


def test_every_template_of_every_locale_reads_well() -> None:
    for source, words in render_samples():
        assert lint_refusal(words.text, source, words.locale).problems == (), words.text


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_texts_with_missing_items_and_constraints_pass_the_linter(locale: str) -> None:
    for entry in REFUSING:
        workflow = entry.refusal_class is RefusalClass.WORKFLOW_BLOCK
        decided = make_decision(
            Verdict.DENY if entry.decided else Verdict.ABSTAIN,
            [entry.code],
            missing=["ticket_id", "approval"] if workflow else [],
            constraints=[] if workflow else ["dry_run"],
        )

        assert complaints(decided, locale) == []


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_branches_read_well(locale: str) -> None:
    for entry in REFUSING:
        held = Refusal.from_code(entry.code, surface=Surface.OUTPUT)

        assert complaints(held, locale, persona="Milo") == []
        assert complaints(Refusal.from_code(entry.code), locale, slots=SLOTS[locale]) == []


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_a_user_who_asks_to_drop_all_instructions_is_answered_as_a_user(locale: str) -> None:
    direct = Refusal.from_code("CONTEXT_INJECTION", surface="input")
    within = Refusal.from_code("CONTEXT_INJECTION", surface="tool_result")

    words = compose(direct, locale=locale)
    assert set(words.parts) & set(compose(within, locale=locale).parts) == set()
    assert not lint_refusal(words.text, direct, locale).problems
    named = compose(direct, locale=locale, persona="Aria")
    assert "Aria" in named.acknowledgment
    assert named.parts[1:] == words.parts[1:]


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
@pytest.mark.parametrize("target", ["/", "~", "/*", "", "x"])
def test_a_target_that_is_no_path_is_not_named(locale: str, target: str) -> None:
    for code in ("DESTRUCTIVE_ACTION", "UNAPPROVED_DESTRUCTION", "IRRECOVERABLE_DESTRUCTION"):
        plain = render(Refusal.from_code(code), locale=locale)
        assert render(Refusal.from_code(code, evidence={"target": target}), locale=locale) == plain


@pytest.mark.parametrize(
    ("code", "key", "value", "said"),
    [
        ("CONTENT_ADVICE", "field", "lawyer", "knows the whole picture (lawyer)."),
        ("APPROVAL_REQUIRED", "approver", "finance lead", "has agreed (finance lead), because"),
    ],
)
def test_a_role_stands_in_brackets_because_its_article_is_not_known(
    code: str, key: str, value: str, said: str
) -> None:
    assert said in render(Refusal.from_code(code, evidence={key: value}))


@pytest.mark.parametrize(
    ("locale", "line"),
    [
        ("en-US", "988 Suicide & Crisis Lifeline (US): call or text 988"),
        ("en-GB", "Samaritans (GB): call 116 123"),
        ("de-AT", "Telefonseelsorge (AT): 142"),
        ("fr-CA", "9-8-8 Suicide Crisis Helpline (CA): call or text 988"),
        ("es-US", "988 Suicide & Crisis Lifeline (US): call or text 988"),
        ("ja", "よりそいホットライン (JP): 0120-279-338"),
        ("ru", "call 8-800-2000-122"),
        ("ar-EG", "call 16328"),
        ("pt_BR.UTF-8", "call 188"),
    ],
)
@pytest.mark.parametrize("code", ["CRISIS_ESCALATION", "CONTENT_SELF_HARM"])
def test_a_person_in_need_is_given_the_lines_of_the_locale(
    code: str, locale: str, line: str
) -> None:
    text = render(Refusal.from_code(code), locale=locale)

    assert line in text
    assert "findahelpline.com" in text


@pytest.mark.parametrize("locale", [None, "en", "tlh", "en-QQ"])
def test_without_a_country_directories_serve_everybody(locale: str | None) -> None:
    words = compose(Refusal.from_code("CRISIS_ESCALATION"), locale=locale)

    assert words.resources == builtin_templates().for_locale("en").resources


def test_lines_chosen_without_a_locale_give_way_to_those_of_the_reader() -> None:
    far = {"locale": "unknown", "resources": [{"name": "Far line", "contact": "1"}]}
    near = {"locale": "de", "resources": [{"name": "Near line", "contact": "2"}]}
    with opened() as gate:
        unknown = gate.decide(refund(10), findings=[finding("CRISIS_ESCALATION", evidence=far)])
        known = gate.decide(refund(10), findings=[finding("CRISIS_ESCALATION", evidence=near)])

    assert "988" in render(unknown, locale="en-US")
    assert "Far line" not in render(unknown, locale="en-US")
    assert "Near line" in render(known, locale="en-US")


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
@pytest.mark.parametrize("code", ["CRISIS_ESCALATION", "OBJECTIVE_UNCLEAR", "SCOPE_MISSING"])
def test_a_crisis_and_a_question_refuse_nothing(code: str, locale: str) -> None:
    for variation in range(3):
        text = compose(Refusal.from_code(code), locale=locale, variation=variation).text

        assert RefusalPart.BOUNDARY not in lint_refusal(text, code).present_parts, text


@pytest.mark.parametrize(
    ("evidence", "asked"),
    [
        ({}, "What should be different once it's done?"),
        ({"rule": "UNCLEAR_GET_RID_OF"}, "Do you mean parting from this person, or harming them?"),
        ({"wrapper": "WRAP_STAY_IN_ROLE"}, "If we put the role aside, what would you like"),
        ({"wrapper": "WRAP_OTHER_WORLD"}, "If we put the made-up world aside"),
        ({"rule": "evil. Click here"}, "What should be different once it's done?"),
    ],
)
def test_an_unclear_request_gets_one_question_about_it(evidence: Any, asked: str) -> None:
    text = render(Refusal.from_code("OBJECTIVE_UNCLEAR", evidence=evidence))

    assert asked in text
    assert text.count("?") == 1


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_a_question_about_the_scope_names_what_is_missing(locale: str) -> None:
    decision = make_decision(Verdict.ESCALATE, ["SCOPE_MISSING"], missing=["order_id", "target"])
    words = compose(decision, locale=locale)
    names = builtin_templates().for_locale(locale).names

    assert words.template == "scope"
    assert all(names[name] in words.engagement for name in ("order_id", "target"))
    assert words.missing == (names["order_id"], names["target"])
    assert "\n" not in words.text


def test_the_act_and_the_target_are_named_as_they_were_asked() -> None:
    evidence = {"rule": "HARASS_THREAT", "target": "your boss"}
    refusal = Refusal.from_code("CONTENT_HARASSMENT", evidence=evidence)

    assert "a conflict with your boss" in render(refusal)
    assert "I can't help with a threat, because" in render(refusal)
    assert "Bei einer Drohung kann ich nicht helfen" in render(refusal, locale="de")
    assert "脅しの文面は書けません" in render(refusal, locale="ja")


def test_a_rule_of_one_language_finds_the_words_of_its_kind() -> None:
    for rule in ("DECEIVE_PHISH", "NL_PHISHING", "PHISHING_ZH"):
        evidence = {"rule": rule}
        text = render(Refusal.from_code("CONTENT_SOCIAL_ENGINEERING", evidence=evidence))

        assert "a message that talks someone out of a password" in text


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_pressure_on_the_model_is_acknowledged_and_decides_nothing(locale: str) -> None:
    pressed = compose(Refusal.from_code("CONTENT_SOCIAL_ENGINEERING"), locale=locale)
    tricked = compose(
        Refusal.from_code("CONTENT_SOCIAL_ENGINEERING", evidence={"rule": "DECEIVE_PHISH"}),
        locale=locale,
    )

    assert pressed.boundary != tricked.boundary
    assert pressed.acknowledgment != tricked.acknowledgment
    assert len(pressed.alternatives) == 3


def test_a_variation_is_chosen_by_number_by_text_or_by_the_decision() -> None:
    texts = [compose(DELETE, variation=number).text for number in range(3)]
    with opened() as gate:
        record = gate.decide(refund(500))
    by_record = compose(record)

    assert len(set(texts)) == 3
    assert compose(DELETE).text == texts[0]
    assert compose(DELETE, variation=4).text == texts[1]
    assert {compose(DELETE, variation=f"talk {n}").variation for n in range(30)} == {0, 1, 2}
    assert by_record == compose(record) == compose(record, variation=record.decision_id)
    assert compose(record, variation=by_record.variation) == by_record
    assert view(record, "end_user")["text"] == by_record.text


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
@pytest.mark.parametrize(
    ("code", "grant", "rule"),
    [
        ("OBJECTIVE_UNCLEAR", "context", ""),
        ("OBJECTIVE_UNCLEAR", "context", "UNCLEAR_GET_RID_OF"),
        ("SCOPE_MISSING", "scope", ""),
    ],
)
def test_a_question_takes_the_place_of_the_name_of_a_grant(
    code: str, grant: str, rule: str, locale: str
) -> None:
    evidence = {"rule": rule} if rule else {}
    plain = Refusal.from_code(code, evidence=evidence)
    named = Refusal.from_code(code, evidence={**evidence, "missing": [grant]})

    assert render(named, locale=locale, variation=0) == render(plain, locale=locale, variation=0)
    assert not lint_refusal(render(named, locale=locale), named, locale).problems


def test_what_a_policy_misses_is_asked_for_by_name() -> None:
    refusal = Refusal.from_code("SCOPE_MISSING", evidence={"missing": ["order_id"]})

    assert "Could you give me this first: order number?" in render(refusal)


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_each_rule_of_the_input_guard_has_words_that_read_well(locale: str) -> None:
    own = language_rules(locale).rules if locale != "en" else ()
    for rule in (*builtin_rules("input").rules, *own):
        if not str(rule.code).startswith("CONTENT_"):
            continue
        for variation in range(3):
            refusal = Refusal.from_code(rule.code, evidence={"rule": rule.id})
            words = compose(refusal, locale=locale, variation=variation)
            report = lint_refusal(words.text, refusal, locale)

            assert (report.score, report.problems) == (100, ()), (rule.id, words.text)


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_each_choice_of_words_is_that_of_a_rule(locale: str) -> None:
    rules = [rule.id for rule in builtin_rules("input").rules]
    rules += [rule.id for rule in builtin_rules("output").rules]
    for other in ("de", "fr", "es", "ja"):
        rules += [rule.id for rule in language_rules(other).rules]
    rules += ["WRAP", "FRAME"]
    listed = [
        (template.id, word)
        for template in builtin_templates().for_locale(locale).templates.values()
        for slot in template.slots.values()
        if slot.evidence == "rule"
        for word in slot.words
    ]

    assert [one for one in listed if not any(rule.startswith(one[1]) for rule in rules)] == []


@pytest.mark.parametrize(
    ("code", "rule", "part"),
    [
        ("CONTENT_SEXUAL", "SEXUAL_COERCION", "explain what consent looks like"),
        ("CONTENT_SELF_HARM", "SELF_HARM_URGED", "words that push someone towards hurting"),
        ("CONTENT_DANGEROUS", "DRUGS_DE", "making or getting hold of drugs"),
        ("CONTENT_VIOLENCE", "VIOLENCE_ANIMAL", "hurting an animal"),
        ("CONTENT_CRIME", "CRIME_ILLEGALLY", "something against the law"),
        ("CONTENT_CRIME", "TRAFFICKING_FORMS", "keeping people against their will"),
    ],
)
def test_the_act_that_was_asked_for_is_named(code: str, rule: str, part: str) -> None:
    for variation in range(3):
        words = compose(Refusal.from_code(code, evidence={"rule": rule}), variation=variation)

        assert part in words.text


def test_numbers_of_a_line_are_joined_in_the_language_of_the_text() -> None:
    assert "0800 111 0 222 oder 116 123" in render(
        Refusal.from_code("CRISIS_ESCALATION"), locale="de-DE"
    )
    assert "call or text 988" in render(Refusal.from_code("CRISIS_ESCALATION"), locale="es-US")
