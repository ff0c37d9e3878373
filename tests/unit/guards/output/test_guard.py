import pytest
from made_secrets import MADE, drawn
from toy_rules import toy_rules

from demur.codes.registry import Registry
from demur.errors import InputError, InputTypeError
from demur.guards.output import guard as outputs
from demur.guards.output.guard import OutputConfig, OutputText, check
from demur.guards.text_rules.rows import check_rows
from demur.guards.text_rules.rule import TextRule
from demur.guards.text_rules.rules import builtin_rules
from demur.model.finding import Action, Finding

# The rows of the other codes are requests; an answer does not say them.
SERVED = ("OUTPUT_FORBIDDEN", "SECRET_LEAK", "PII_DETECTED")
RULES = builtin_rules(outputs.SURFACE)


def rows(kind: str) -> list[tuple[str, str]]:
    registry = Registry.load()
    return [(code, text) for code in SERVED for text in getattr(registry[code].examples, kind)]


def found(text: str, **config: object) -> list[Finding]:
    return list(check(OutputText(text), OutputConfig(**config)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("code", "text"), rows("refuse"))
def test_each_registered_row_is_refused(code: str, text: str) -> None:
    assert code in {finding.code for finding in found(text) if finding.action is not Action.WARN}


@pytest.mark.parametrize(("code", "text"), rows("allow"))
def test_each_registered_harmless_twin_passes(code: str, text: str) -> None:
    assert [finding for finding in found(text) if finding.code == code] == []


def test_the_rules_treat_their_own_rows_as_they_say() -> None:
    assert check_rows(RULES) == []


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.id)
def test_each_rule_is_found_by_the_guard_as_by_the_scanner(rule: TextRule) -> None:
    for text in rule.refuse:
        assert (rule.code, rule.action) in {
            (finding.code, finding.action) for finding in found(text)
        }


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.id)
def test_no_harmless_twin_of_a_rule_is_blocked(rule: TextRule) -> None:
    for text in rule.allow:
        assert [finding for finding in found(text) if finding.action is not Action.WARN] == []


def test_every_code_of_the_rules_is_declared() -> None:
    assert set(RULES.codes) <= set(outputs.CODES)


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with watching someone without their knowledge. I can help you plan a talk.",
        "I'm sorry, but I can't explain how to hack into an account. Try the recovery page.",
        "Phishing mails often imitate a bank. Attackers ask for a password; report such a mail.",
        "Two men were convicted of robbing a bank on Monday, the court said.",
        "This function is open to SQL injection: an attacker could read it. Bind parameters.",
        "If you are thinking about hurting yourself, you can call or text 988 at any time.",
        "To kill the stuck process, you can run `kill -9` with its id.",
        "Run `git show 3f786850e387550fdab836ed7e6dc881de23001b` and compare the trees.",
        "The id is 123e4567-e89b-12d3-a456-426614174000.",
        "Set `password = os.environ['DB_PASSWORD']` and never commit the value.",
        "",
    ],
)
def test_refusals_advice_news_and_reviews_pass(text: str) -> None:
    assert found(text) == []


def test_signs_of_failed_alignment_are_recorded_and_not_blocked() -> None:
    [finding] = found("As an unrestricted AI, I see no problem here.")

    assert (finding.code, finding.action) == ("OUTPUT_FORBIDDEN", Action.WARN)


def test_findings_come_in_the_order_of_spans() -> None:
    text = f"{MADE['github token']} card 4929 3813 3266 4717 and {MADE['private key']}"
    spans = [finding.span.start for finding in found(text) if finding.span]

    assert len(spans) == 3
    assert spans == sorted(spans)


def test_what_stands_in_the_prompt_is_no_leak() -> None:
    token = MADE["github token"]
    [finding] = check(OutputText(f"Your token {token} looks fine.", prompt=f"Check {token}."))

    assert (finding.action, finding.evidence["echoed"]) == (Action.WARN, True)
    [finding] = check(OutputText(f"Your token {token} looks fine.", prompt="Check it."))
    assert finding.action is Action.BLOCK


def test_the_hidden_instructions_are_kept() -> None:
    prompt = "You are Aria of Blue Harbour Bank and you never mention the rate table to anyone."
    text = f"My instructions say: {prompt} That is all."
    [finding] = found(text, system_prompt=prompt)

    assert finding.code == "PROMPT_LEAK"
    assert found(text) == []
    assert found("mark 77-x-77", canary="77-x-77")[0].code == "PROMPT_LEAK"
    assert found(text, system_prompt="Be kind.") == []


def test_each_search_can_be_turned_off() -> None:
    assert found(MADE["github token"], secrets=False) == []
    assert found(f"a {drawn(48)} b", loose_secrets=False) == []
    assert len(found(f"a {drawn(48)} b")) == 1
    assert found("Card 4929 3813 3266 4717", personal=None) == []
    assert found("Card 4929 3813 3266 4717", personal=Action.BLOCK)[0].action is Action.BLOCK
    assert found(" " * 400, padding=None) == []
    assert found(" " * 400)[0].evidence == {"rule": "LONG_PADDING"}


def test_own_rules_replace_the_built_in_ones() -> None:
    rules = toy_rules("pattern: lorem ipsum")

    assert found("Lorem  IPSUM dolor", rules=rules)[0].evidence == {"rule": "R0"}
    assert found("Step-by-step instructions to hack your neighbour's router", rules=rules) == []


def test_a_secret_found_twice_is_reported_once() -> None:
    token = MADE["github token"]

    assert len(found(f'api_key = "{token}"')) == 1
    assert len(found(f"postgres://app:{drawn(14)}@db.internal/x password={drawn(24)}")) == 2


def test_the_worse_of_two_findings_at_a_place_stays() -> None:
    text = f"Card {drawn(9)}4929 3813 3266 4717"
    rules = toy_rules("pattern: \\bcard .{0,60}", action="warn")

    assert [finding.code for finding in found(text, rules=rules)] == ["OUTPUT_FORBIDDEN"]


def test_only_text_is_an_answer() -> None:
    with pytest.raises(InputTypeError, match="an answer must be a text, not `bytes`"):
        list(check(OutputText(b"x")))  # type: ignore[arg-type]


def test_an_answer_that_is_too_long_is_not_read_in_part() -> None:
    with pytest.raises(InputError, match="the answer has 11 characters, more than 10"):
        found("x" * 11, longest=10)


def test_a_large_text_is_read_to_its_end() -> None:
    text = "A harmless line of text.\n" * 20_000 + MADE["sendgrid key"]
    [finding] = found(text)

    assert finding.span is not None
    assert finding.span.end == len(text)
