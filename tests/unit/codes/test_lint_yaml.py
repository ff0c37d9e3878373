import pytest

from demur.codes.lint_rules import LocatedDiagnostic
from demur.codes.lint_yaml import CODE_KEYS, check_yaml
from demur.codes.registry import Registry


def read(source: str | bytes, registry: Registry) -> list[LocatedDiagnostic]:
    return check_yaml(source.encode() if isinstance(source, str) else source, registry)


def places(source: str, registry: Registry) -> list[tuple[int, int, str]]:
    return sorted((one.line, one.column, one.rule) for one in read(source, registry))


POLICY = """\
schema_version: policy.v1
defaults: { verdict: ESCALATE, reason_code: NO_MATCH_DEFAULT_ESCALATE }
rules:
  - id: R_REFUND_LIMIT
    if: { amount_usd: { gt: 250 } }
    then:
      verdict: ESCALATE
      reason_codes: [REFUND_OVER_ESCALATION_LIMIT]
"""


def test_a_sound_policy_is_quiet(core: Registry) -> None:
    assert places(POLICY, core) == []


def test_each_code_is_found_with_its_line_and_column(core: Registry) -> None:
    policy = POLICY.replace("NO_MATCH_", "NO_MATCHING_").replace("[REFUND", "[HIGH_RISK, REFUNDS")

    assert places(policy, core) == [
        (2, 45, "unregistered-code"),
        (8, 22, "metric-code"),
        (8, 33, "unregistered-code"),
    ]


@pytest.mark.parametrize("key", sorted(CODE_KEYS))
@pytest.mark.parametrize("value", ["NO_SUCH_CODE", "[NO_SUCH_CODE]", "\n- NO_SUCH_CODE"])
def test_every_key_takes_one_code_or_a_list(key: str, value: str, core: Registry) -> None:
    assert [one.rule for one in read(f"{key}: {value}", core)] == ["unregistered-code"]


@pytest.mark.parametrize(
    "source",
    [
        "",
        "---\n---\n",
        "just text",
        "reason_code:\n",
        "reason_code: ~\n",
        "reason_codes: []\n",
        "reason_code: {type: string}\n",
        "reason_codes: [{code: NO_SUCH_CODE}]\n",
        "codes: [NO_SUCH_CODE]\n",
        "? [reason_code]\n: NO_SUCH_CODE\n",
        "message: 'REFUSED: A_B: c'\n",
    ],
)
def test_yaml_without_a_code_gives_no_diagnostic(source: str, core: Registry) -> None:
    assert places(source, core) == []


@pytest.mark.parametrize("value", ["NO", "on", "42", "1.5", "''"])
def test_a_value_that_yaml_turns_into_something_else_is_still_judged(
    value: str, core: Registry
) -> None:
    assert places(f"reason_code: {value}\n", core) == [(1, 14, "unregistered-code")]


def test_a_tag_is_never_acted_on(core: Registry) -> None:
    source = "x: !!python/object/apply:os.system [exit]\nreason_code: !vault RCE_RISK\n"

    assert places(source, core) == []


def test_an_anchored_code_is_reported_where_it_is_written(core: Registry) -> None:
    source = "x: &bad NO_SUCH_CODE\nreason_code: *bad\n"

    assert places(source, core) == [(1, 4, "unregistered-code")]


def test_every_document_of_a_file_is_read(core: Registry) -> None:
    source = "reason_code: RCE_RISK\n---\nreason_code: NO_SUCH_CODE\n"

    assert places(source, core) == [(3, 14, "unregistered-code")]


def test_a_duplicate_key_names_the_line_of_the_first(core: Registry) -> None:
    [sighting] = read("rules:\n  - id: a\n    verdict: ALLOW\n    id: b\n", core)

    assert (sighting.line, sighting.column, sighting.rule) == (4, 5, "duplicate-key")
    assert sighting.message == "the key `id` appears twice: also in line 2"


def test_keys_of_another_type_or_mapping_are_no_duplicates(core: Registry) -> None:
    assert places("1: a\n'1': b\nx: {x: 1}\n", core) == []


@pytest.mark.parametrize(
    "source",
    [
        "reason_code: HIGH_RISK  # demur: allow metric-code - a sample\n",
        "reason_code: HIGH_RISK  # demur: allow metric-code - a sample",
        "x: 'it''s # here'\nreason_code: 'HIGH_RISK' # demur: allow metric-code - a sample\n",
        "reason_codes: [HIGH_RISK, 'LOW_RISK']  # demur: allow metric-code - a # sample\r\n",
        "reason_code: >-  # demur: allow metric-code - a sample\n  HIGH_RISK\n",
        "x: 1 # other\nreason_code: 'HIGH\n  RISK' # demur: allow prose-code - a sample\n",
    ],
)
def test_a_comment_on_the_line_silences_a_rule(source: str, core: Registry) -> None:
    assert places(source, core) == []


def test_a_comment_without_a_reason_is_reported_at_its_place(core: Registry) -> None:
    source = "x: 1\nreason_code: HIGH_RISK  # demur: allow metric-code\n"

    assert places(source, core) == [(2, 25, "bare-suppression")]


@pytest.mark.parametrize(
    "source",
    [
        "reason_code: HIGH_RISK\nx: 1  # demur: allow metric-code - another line\n",
        "reason_code: >-\n  HIGH_RISK\nx: 1  # demur: allow metric-code - another line\n",
    ],
)
def test_a_comment_on_the_next_line_silences_nothing(source: str, core: Registry) -> None:
    assert [rule for _, _, rule in places(source, core)] == ["metric-code"]


@pytest.mark.parametrize(
    "source",
    [
        "{x: '# demur: allow metric-code - in a text', reason_code: HIGH_RISK}\n",
        "{x: a#demur:allow metric-code - no comment, reason_code: HIGH_RISK}\n",
    ],
)
def test_a_hash_inside_a_text_is_no_comment(source: str, core: Registry) -> None:
    assert "metric-code" in {one.rule for one in read(source, core)}


def test_a_block_of_text_holds_no_comments(core: Registry) -> None:
    source = "x: |\n  # demur: allow everything - in a text\nreason_code: RCE_RISK\ny: |"

    assert places(source, core) == []


@pytest.mark.parametrize(
    ("source", "place", "problem"),
    [
        (b"a: 1\nb: [1, 2\n", (3, 1), "not YAML: expected ',' or ']'"),
        (b"a: *missing\n", (1, 4), "not YAML: found undefined alias"),
        (b"a: 1\n\tb: 2\n", (2, 1), "not YAML: found character '\\t'"),
        (b"a: 1\nb: \xff\n", (2, 4), "not utf-8 text"),
        (b"\xef\xbb\xbfa: \xff\n", (1, 4), "not utf-8 text"),
        (b"a: 1\nb: \x00\n", (2, 4), "not YAML: special characters are not allowed"),
        (b'a: "\\UFFFFFFFF"\n', (1, 1), "not YAML: "),
        (b"%YAML 1." + b"9" * 5000 + b"\n---\n", (1, 1), "not YAML: "),
        (b"[" * 20_000, (1, 1), "not YAML: nested too deep"),
    ],
    ids=range(9),
)
def test_a_broken_file_is_one_unreadable_sighting(
    source: bytes, place: tuple[int, int], problem: str, core: Registry
) -> None:
    [sighting] = read(source, core)

    assert sighting.rule == "unreadable"
    assert (sighting.line, sighting.column) == place
    assert sighting.message.startswith(problem)


def test_a_byte_order_mark_is_no_part_of_the_first_line(core: Registry) -> None:
    assert places("\ufeffreason_code: NO_SUCH_CODE\n", core) == [(1, 14, "unregistered-code")]
