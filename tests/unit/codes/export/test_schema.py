import re

from hypothesis import given
from hypothesis import strategies as st

from demur.codes.export.schema import (
    CODE_PATTERN,
    DOMAIN_PATTERN,
    DOMAIN_CODE_PATTERN,
    VERSION_PATTERN,
    nullable_schema,
    enum_schema,
)
from demur.codes.fields import ENTRY_FIELDS, RegistryFieldError
from demur.codes.names import is_code, is_domain

NAMES = st.text(st.sampled_from("ABZ09_"), max_size=66)
DOMAINS = st.text(st.sampled_from("az09.-"), max_size=12) | st.just("x-local")


def matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


@given(NAMES)
def test_the_pattern_of_core_codes_says_what_the_package_says(name: str) -> None:
    assert matches(CODE_PATTERN, name) == is_code(name)


@given(DOMAINS, NAMES)
def test_the_patterns_of_domains_say_what_the_package_says(domain: str, name: str) -> None:
    assert matches(DOMAIN_PATTERN, domain) == is_domain(domain)
    assert matches(DOMAIN_CODE_PATTERN, f"{domain}/{name}") == is_code(f"{domain}/{name}")


def test_a_domain_has_at_most_253_characters() -> None:
    longest = "a." + "b" * 251

    assert is_domain(longest)
    assert matches(DOMAIN_PATTERN, longest)
    assert not matches(DOMAIN_PATTERN, longest + "b")
    assert not matches(DOMAIN_CODE_PATTERN, f"{longest}b/CODE")


@given(st.from_regex(r"[0-9]{1,11}(\.[0-9]{1,3}){1,3}", fullmatch=True))
def test_the_pattern_of_versions_says_what_the_package_says(version: str) -> None:
    try:
        accepted = ENTRY_FIELDS["since"](version) == version
    except RegistryFieldError:
        accepted = False

    assert matches(VERSION_PATTERN, version) == accepted


def test_words_and_values_may_be_null_where_that_is_said() -> None:
    assert enum_schema(["a"], "A word.") == {"description": "A word.", "enum": ["a"]}
    assert enum_schema(["a"], "A word.", null=True)["enum"] == ["a", None]
    assert nullable_schema({"type": "string"}) == {"type": ["string", "null"]}
