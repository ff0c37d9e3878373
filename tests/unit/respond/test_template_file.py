from pathlib import Path

import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass
from demur.model.refusal import Refusal
from demur.respond.graceful import compose
from demur.respond.template_file import (
    BUILTIN_LOCALES,
    TemplateError,
    builtin_templates,
    load_templates,
    parse_templates,
)

HEAD = "schema_version: refusal_templates.v1\nlocale: en\n"
WORDS = """\
    acknowledgment: I see it.
    boundary: I can't run it
    reason: it is late
    alternatives: [list it, copy it]
    engagement: Shall I?
"""


def problems(text: str) -> list[str]:
    with pytest.raises(TemplateError) as caught:
        parse_templates(text, "t.yaml")
    return [f"{one.where}: {one.problem} | {one.help}" for one in caught.value.problems]


def template(more: str = "", words: str = WORDS) -> str:
    return f"{HEAD}templates:\n  - id: own\n{more}{words}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "t.yaml:1:1: a template file is a mapping"),
        ("locale: en", "t.yaml:1:1: `schema_version` is missing"),
        ("schema_version: v9\nlocale: en", "t.yaml:1:17: unknown schema version `v9`"),
        ("schema_version: refusal_templates.v1\nlocale: e", "t.yaml:2:9: `e` is no locale"),
        (f"{HEAD}tempates: []", "t.yaml:3:1: unknown key `tempates` | did you mean `templates`?"),
        (f"{HEAD}zzz: 1", "t.yaml:3:1: unknown key `zzz` | a template file has schema_version, "),
        (f"{HEAD}description: 1", "t.yaml:3:14: `description` must be a text | quote it"),
        (f"{HEAD}templates: 1", "t.yaml:3:12: `templates` is a list"),
        (f"{HEAD}templates: [1]", "t.yaml:3:13: a template is a mapping"),
        (f"{HEAD}names: 1", "t.yaml:3:8: `names` is a mapping"),
        (f"{HEAD}names: {{a: 1}}", "t.yaml:3:12: `a` must be a text"),
        (f"{HEAD}phrases: 1", "t.yaml:3:10: `phrases` is a mapping"),
        (f"{HEAD}phrases: {{offr: x}}", "unknown key `offr` | did you mean `offer`?"),
        (f"{HEAD}phrases: {{or: 1}}", "t.yaml:3:15: `or` must be a text"),
        (f"{HEAD}phrases: {{offer: I can.}}", "`offer` must hold `{list}`, once and no"),
        (f"{HEAD}phrases: {{because: '{{reason}}'}}", "hold `{boundary}` and `{reason}`, once"),
        (f"{HEAD}phrases: {{or: '{{x}}'}}", "t.yaml:3:15: `or` must hold no slot"),
        (f"{HEAD}phrases: {{or: '{{'}}", "t.yaml:3:15: `or` must hold no slot"),
        (f"{HEAD}advice: {{retry_latter: x}}", "unknown key `retry_latter` | did you mean"),
        (f"{HEAD}advice: 1", "t.yaml:3:9: `advice` is a mapping"),
        (f"{HEAD}resources: x", "`resources` is a list"),
        (f"{HEAD}slots: 1", "`slots` is a mapping"),
        (f"{HEAD}slots: {{A: {{kind: words}}}}", "t.yaml:3:9: `A` is no name for a slot"),
        (f"{HEAD}slots: {{missing: {{kind: words}}}}", "`missing` is no name for a slot"),
        (f"{HEAD}slots: {{a: 1}}", "t.yaml:3:12: a slot is a mapping"),
        (f"{HEAD}slots: {{a: {{}}}}", "t.yaml:3:12: `kind` is missing"),
        (f"{HEAD}slots: {{a: {{kind: word}}}}", "unknown kind `word` | did you mean `words`?"),
        (f"{HEAD}slots: {{a: {{kind: x, else: y}}}}", "unknown kind `x` | one of words, name"),
        (f"{HEAD}branches: [{{}}]", "a branch says `when` it is taken"),
        (f"{HEAD}branches: [{{when: [goale]}}]", "unknown slot `goale` | did you mean `goal`?"),
        (f"{HEAD}branches: [{{when: [xyz]}}]", "unknown slot `xyz` | declare it under `slots`"),
    ],
)
def test_a_malformed_file_is_reported_with_its_location(text: str, told: str) -> None:
    assert any(one.startswith(told) or told in one for one in problems(text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (template("    codes: [RCE_RISC]\n"), "t.yaml:5:13: unknown reason code `RCE_RISC` | did"),
        (template("    codes: [ZZZZZZ]\n"), "unknown reason code `ZZZZZZ` | `demur codes list`"),
        (template("    codes: [1]\n"), "t.yaml:5:13: `codes` holds texts | quote it"),
        (template("    codes: [SUCCESS_MEMORY_SIMILAR_ALLOW]\n"), "refuses nothing"),
        (
            template("    codes: [RCE_RISK, RATE_LIMIT]\n"),
            "t.yaml:5:23: `RATE_LIMIT` cannot share its words with `RCE_RISK`",
        ),
        (
            template("    codes: [RATE_LIMIT, STORAGE_UNAVAILABLE]\n"),
            "`STORAGE_UNAVAILABLE` cannot share its words with `RATE_LIMIT`",
        ),
        (
            template("    codes: [RCE_RISK]\n    branches: [{when: [missing], reason: it is}]\n"),
            "nothing lifts a hard block, so it never waits for `missing`",
        ),
        (template().replace("id: own", "id: Own"), "t.yaml:4:9: `Own` is no id of a template"),
        (template("    resources: 1\n"), "`resources` must be true or false, not `1`"),
        (template(words=WORDS.replace("    reason: it is late\n", "")), "`reason` is missing"),
        (template(words=WORDS.replace("[list it, copy it]", "[list it]")), "fewer than 2 altern"),
        (template(words=WORDS.replace("[list it, copy it]", "x")), "`alternatives` is a list"),
        (template(words=WORDS.replace("copy it", "7")), "`alternatives` holds texts"),
        (template(words=WORDS.replace("it is late", "7")), "`reason` must be a text"),
        (template(words=WORDS.replace("Shall I?", "I will.")), "`engagement` asks nothing"),
        (template(words=WORDS.replace("it is late", "'{'")), "a brace is no slot"),
        (template(words=WORDS.replace("it is late", "'{tol}'")), "unknown slot `tol`"),
        (
            template(words=WORDS.replace("it is late", "'{persona}'")),
            "the slot `persona` may be empty",
        ),
        (
            template("    branches: [{when: [goal], reason: '{persona}'}]\n"),
            "the slot `persona` may be empty here",
        ),
        (f"{template()}  - id: own\n{WORDS}", "template `own` appears twice | also at t.yaml:4:5"),
        (
            f"{template('    codes: [RCE_RISK]')}\n".replace(
                "    codes: [RCE_RISK]    ack", "    codes: [RCE_RISK]\n    ack"
            )
            + f"  - id: two\n    codes: [RCE_RISK]\n{WORDS}",
            "`RCE_RISK` has two templates: `own` and `two`",
        ),
    ],
)
def test_a_malformed_template_is_reported_with_its_location(text: str, told: str) -> None:
    assert any(told in one for one in problems(text))


def test_every_problem_is_reported_at_once() -> None:
    text = template("    codes: [RCE_RISC]\n", WORDS.replace("Shall I?", "I will."))

    assert len(problems(text)) == 2


OWN = f"""{HEAD}names: {{ticket_id: case number}}
templates:
  - id: our_refunds
    codes: [REFUND_OVER_ESCALATION_LIMIT]
    acknowledgment: I see you'd like your money back.
    boundary: I can't pay out that much by myself
    reason: a colleague has a look at larger sums
    alternatives: [pass it on with your receipt, refund a part right away]
    engagement: Which would you like?
"""


def test_every_built_in_locale_can_answer() -> None:
    books = builtin_templates().by_locale

    assert builtin_templates().locales == BUILTIN_LOCALES
    assert [book.locale for book in books.values()] == list(BUILTIN_LOCALES)
    assert len(books) == len(BUILTIN_LOCALES)
    assert "nl" not in books


def test_english_has_words_for_every_code_but_the_most_general() -> None:
    book = builtin_templates().by_locale["en"]
    without = [entry.code for entry in Registry.load() if book.template_for(entry.code) is None]

    assert without == ["POLICY_VIOLATION", "SUCCESS_MEMORY_SIMILAR_ALLOW"]


def test_own_words_lie_over_the_built_in_ones(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(OWN, encoding="utf-8")
    templates = load_templates(path)

    own = compose(Refusal.from_code("REFUND_OVER_ESCALATION_LIMIT"), templates=templates)
    other = compose(Refusal.from_code("SPEND_OVER_APPROVAL_LIMIT"), templates=templates)
    assert own.template == "our_refunds"
    assert own.boundary == "I can't pay out that much by myself."
    assert other.template == "approval_limit"
    assert templates.by_locale["en"].names["ticket_id"] == "case number"
    assert builtin_templates().by_locale["en"].names["ticket_id"] == "ticket number"


def test_an_id_that_is_built_in_replaces_its_template() -> None:
    text = OWN.replace("our_refunds", "general_workflow").replace(
        "    codes: [REFUND_OVER_ESCALATION_LIMIT]\n", ""
    )
    templates = parse_templates(text)
    words = compose(Refusal.from_code("RATE_LIMIT"), templates=templates)

    assert templates.by_locale["en"].templates["general_workflow"].wording.engagement == (
        "Which would you like?"
    )
    assert words.template == "rate_limit"


def test_a_region_lies_over_its_language() -> None:
    text = OWN.replace("locale: en", "locale: de-CH")
    templates = parse_templates(text)
    own = compose(
        Refusal.from_code("REFUND_OVER_ESCALATION_LIMIT"), locale="de_CH", templates=templates
    )
    other = compose(Refusal.from_code("RATE_LIMIT"), locale="de_CH", templates=templates)

    assert (own.template, own.locale) == ("our_refunds", "de-CH")
    assert other.text == compose(Refusal.from_code("RATE_LIMIT"), locale="de").text
    assert templates.locales == (*BUILTIN_LOCALES, "de-CH")
    assert len(templates.by_locale) == len(BUILTIN_LOCALES) + 1


def test_a_new_locale_must_be_able_to_answer_every_code() -> None:
    with pytest.raises(TemplateError) as caught:
        parse_templates(OWN.replace("locale: en", "locale: nl"), "nl.yaml")

    said = [problem.problem for problem in caught.value.problems]
    assert [text.split("`")[1] for text in said] == ["templates", "phrases", "advice", "resources"]
    assert "general_hard, general_workflow" in said[0]
    assert caught.value.where == "nl.yaml:1:1"


def test_a_complete_new_locale_is_negotiated() -> None:
    english = Path(__file__).parents[3] / "src/demur/respond/templates/en.yaml"
    text = english.read_text(encoding="utf-8").replace("locale: en", "locale: nl", 1)
    templates = parse_templates(text)

    assert (
        compose(Refusal.from_code("RATE_LIMIT"), locale="nl-BE", templates=templates).locale == "nl"
    )


def test_own_codes_get_own_words(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    path.write_text(
        """{"schema_version": "reason_codes.v1", "version": "1.0.0", "domain": "acme.example",
        "codes": [{"code": "acme.example/KYC_EXPIRED", "parent": "CONTEXT_MISSING",
        "since": "1.0.0", "description": "The identity check is out of date."}]}""",
        encoding="utf-8",
    )
    registry = Registry.load(path)
    text = OWN.replace("REFUND_OVER_ESCALATION_LIMIT", "acme.example/KYC_EXPIRED")
    templates = parse_templates(text, registry=registry)
    source = Refusal.from_code("acme.example/KYC_EXPIRED", registry=registry)

    assert compose(source, templates=templates, registry=registry).template == "our_refunds"
    # Without them, the words of the parent.
    assert compose(source, registry=registry).template == "missing_context"
    assert source.refusal_class is RefusalClass.WORKFLOW_BLOCK


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="cannot read the templates: no such file"):
        load_templates(tmp_path / "none.yaml")
    with pytest.raises(TemplateError, match="not YAML"):
        parse_templates("a: [")
