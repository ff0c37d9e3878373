import pytest

from demur.respond.loading import TemplateError, parse_templates

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
def test_a_wrong_file_is_told_with_its_place(text: str, told: str) -> None:
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
        (f"{template()}  - id: own\n{WORDS}", "template `own` stands twice | also at t.yaml:4:5"),
        (
            f"{template('    codes: [RCE_RISK]')}\n".replace(
                "    codes: [RCE_RISK]    ack", "    codes: [RCE_RISK]\n    ack"
            )
            + f"  - id: two\n    codes: [RCE_RISK]\n{WORDS}",
            "`RCE_RISK` has two templates: `own` and `two`",
        ),
    ],
)
def test_a_wrong_template_is_told_with_its_place(text: str, told: str) -> None:
    assert any(told in one for one in problems(text))


def test_everything_that_is_wrong_is_told_at_once() -> None:
    text = template("    codes: [RCE_RISC]\n", WORDS.replace("Shall I?", "I will."))

    assert len(problems(text)) == 2
