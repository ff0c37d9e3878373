import pytest

from demur.codes.lint_python import check_python
from demur.codes.registry import Registry

FROM = "from demur import ReasonCode, Refusal, format_refusal\n"


def messages(source: str, registry: Registry) -> list[tuple[str, str]]:
    found = check_python((FROM + source).encode(), registry)
    return [(one.rule, one.message) for one in found]


def rules(source: str, registry: Registry) -> list[str]:
    return [rule for rule, _ in messages(source, registry)]


@pytest.mark.parametrize(
    "source",
    [
        'raise PermissionError("blocked by policy")',
        'raise PermissionError("you may not: not allowed here")',
        'raise ToolDenied(f"{tool} is not permitted")',
        'raise errors.GuardrailError("request rejected: " + why)',
        'raise ValueError("Rate  limited, retry later")',
        'raise HTTPException(status_code=403, detail="denied by policy")',
        'def tool():\n  return "Prompt injection detected in the page"',
        'def tool():\n  yield "Prompt injection detected in the page"',
        'log.warning("loop detected in %s", name)',
        'print("Policy violation: %s" % rule)',
    ],
)
def test_a_refusal_in_prose_is_found(source: str, core: Registry) -> None:
    assert rules(source, core) == ["prose-refusal"]


def test_a_refusal_in_prose_is_found_in_a_file_that_never_names_demur(core: Registry) -> None:
    [found] = check_python(b'def f():\n    raise PermissionError("blocked by policy")\n', core)

    assert (found.line, found.column, found.rule) == (2, 27, "prose-refusal")
    assert found.message == "a refusal without a code: `blocked by policy`"
    assert "`POLICY_VIOLATION` is what it says today" in found.help


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError("the amount is not allowed to be negative")',
        'raise PermissionError("Permission denied")',
        'raise PermissionError(13, "cannot open", path)',
        "raise PermissionError(format_refusal(ReasonCode.EGRESS_DENIED, host))",
        'raise ToolDenied("not permitted", code="EGRESS_DENIED")',
        'raise ToolDenied(ReasonCode.EGRESS_DENIED, "not permitted")',
        'log.info("no loop detected")',
        'log.info("the policy has 3 rules")',
        'log.debug("blocked by policy")',
        'x = "blocked by policy"',
        'if line == "blocked by policy":\n  pass',
        'def f():\n  """Blocked by policy."""',
        'def f():\n  return "guardrail_intervened"',
        "raise Denied",
    ],
)
def test_an_ordinary_text_is_quiet(source: str, core: Registry) -> None:
    assert rules(source, core) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('format_refusal("EGRESS_DENIED", "")', "the detail is empty"),
        ('format_refusal(code, "")', "the detail is empty"),
        ('format_refusal(code, detail="  ")', "the detail `  ` says nothing"),
        (
            'format_refusal(ReasonCode.EGRESS_DENIED, "Denied.")',
            "the detail `Denied.` says nothing",
        ),
        (
            'format_refusal(ReasonCode.EGRESS_DENIED, "egress denied")',
            "the detail `egress denied` says nothing",
        ),
        (
            'format_refusal("EGRESS_DENIED", "EGRESS_DENIED")',
            "the detail `EGRESS_DENIED` says nothing",
        ),
        ('Refusal.from_code("EGRESS_DENIED", "n/a")', "the detail `n/a` says nothing"),
    ],
)
def test_a_detail_that_says_nothing_is_found(call: str, message: str, core: Registry) -> None:
    assert messages(f"line = {call}", core) == [("empty-detail", message)]


@pytest.mark.parametrize(
    "call",
    [
        'format_refusal("EGRESS_DENIED", host)',
        'format_refusal("EGRESS_DENIED", f"{host}")',
        'format_refusal("EGRESS_DENIED", "evil.example")',
        'format_refusal("EGRESS_DENIED", *rest)',
        'format_refusal("EGRESS_DENIED", **more)',
        'format_refusal("EGRESS_DENIED")',
        'Refusal.from_code("EGRESS_DENIED")',
        'Other.from_code("EGRESS_DENIED", "")',
    ],
)
def test_a_detail_that_says_something_or_is_not_known_is_quiet(call: str, core: Registry) -> None:
    assert rules(f"line = {call}", core) == []


def test_a_finding_can_be_allowed_with_a_reason(core: Registry) -> None:
    line = 'raise PermissionError("blocked by policy")  # demur: allow prose-refusal - an example'

    assert rules(line, core) == []
