import json
import re
from importlib.resources import files

import pytest

from demur.guards.input.crisis import crisis_evidence, find_help_resources
from demur.guards.text_rules.rules import builtin_rules
from demur.guards.text_rules.text import TextHit

RULES = builtin_rules("input")


def names(locale: str | None) -> str:
    return " | ".join(f"{found.name}: {found.contact}" for found in find_help_resources(locale))


@pytest.mark.parametrize(
    ("locale", "contact"),
    [
        ("en-US", "988"),
        ("en_GB", "116 123"),
        ("de", "0800 111 0 111"),
        ("de-CH", "143"),
        ("fr_FR.UTF-8", "3114"),
        ("pt-BR", "188"),
        ("es-419-MX", "800 911 2000"),
        ("zh-Hant-TW", "1925"),
        ("ja", "0120-279-338"),
        ("nl_NL@euro", "113"),
        ("en-au", "13 11 14"),
    ],
)
def test_a_locale_brings_the_lines_of_its_country_first(locale: str, contact: str) -> None:
    assert contact in names(locale).partition(" | Local emergency")[0]


@pytest.mark.parametrize("locale", [None, "", "en", "es", "xx-YY", "en-ZZ", "C", "-", "12"])
def test_where_the_country_is_not_known_there_is_help_anywhere(locale: str | None) -> None:
    said = names(locale)

    assert said.startswith("Local emergency services")
    assert "findahelpline.com" in said
    assert "988" in said


def test_every_country_has_a_line_and_a_directory() -> None:
    for locale in ("ar-AR", "en-IN", "th", "uk", "en-ZA", "he"):
        found = find_help_resources(locale)

        assert found[0].country is not None
        assert found[-1].country is None
        assert all(line.name and line.contact for line in found)


def test_every_line_names_the_site_of_who_runs_it() -> None:
    source = files("demur.guards") / "data" / "crisis_lines.json"
    held = json.loads(source.read_text(encoding="utf-8"))
    lines = [*held["anywhere"], *(line for some in held["countries"].values() for line in some)]

    assert len(lines) > 40
    for line in lines:
        assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", line["source"])


def test_another_country_of_a_language_is_not_taken_for_its_first() -> None:
    assert "TelefonSeelsorge" not in names("de-LI")


@pytest.mark.parametrize(
    ("rule", "signal"),
    [
        ("CRISIS_WISH_TO_DIE", "suicide"),
        ("CRISIS_SELF_HARM_NOW", "self_harm"),
        ("CRISIS_OTHERS", "harm_to_others"),
        ("CRISIS_FRIEND", "concern_for_another"),
    ],
)
def test_the_evidence_says_what_sort_of_danger_was_seen(rule: str, signal: str) -> None:
    evidence = crisis_evidence(TextHit(RULES[rule], 0, 1), None)

    assert (evidence["rule"], evidence["signal"], evidence["locale"]) == (rule, signal, "unknown")
    assert "via" not in evidence
    assert evidence["resources"][0] == {
        "name": "Local emergency services",
        "contact": "call your local emergency number (112 in many countries)",
    }


def test_the_evidence_says_if_it_was_written_in_an_encoding() -> None:
    hit = TextHit(RULES["CRISIS_WISH_TO_DIE"], 0, 1, "base64")

    assert crisis_evidence(hit, "en-US")["via"] == "base64"
