import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dashboard_site import Site

from demur.service.dashboard.frame import PageFrame
from demur.service.dashboard.rendering import (
    asset_path,
    constant_words,
    encode_query,
    encode_segment,
    format_amount,
    format_change,
    format_json,
    format_number,
    format_percent,
    load_assets,
    render_template,
    reveal_hidden,
)

THIN = "\N{NARROW NO-BREAK SPACE}"


def test_numbers_are_grouped_and_nouns_follow_them() -> None:
    assert format_number(1234567) == f"1{THIN}234{THIN}567"
    assert format_amount(1, "decision") == "1 decision"
    assert format_amount(0, "decision") == "0 decisions"
    assert constant_words("REFUSE_WITH_PATH") == "refuse with path"


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0.0"), (0.04, "< 0.1"), (12.34, "12.3"), (100, "100.0")]
)
def test_a_percentage_is_never_nothing_for_something(value: float, shown: str) -> None:
    assert format_percent(value) == f"{shown}{THIN}%"


@pytest.mark.parametrize(
    ("now", "before", "shown"),
    [
        (3, 0, ""),
        (900, 19, ""),
        (30, 30, "±0"),
        (60, 30, "+100"),
        (90, 30, "+200"),
        (10, 40, "−75"),  # noqa: RUF001 - a true minus
    ],
)
def test_a_change_is_relative_to_the_period_before(now: int, before: int, shown: str) -> None:
    assert format_change(now, before) == (f"{shown}{THIN}%" if shown else "")


@pytest.mark.parametrize(
    ("now", "before", "shown"),
    [(91, 30, "3.0×"), (390, 30, "13×"), (30_000, 30, f"1{THIN}000×")],  # noqa: RUF001 - a true sign
)
def test_a_large_change_is_shown_as_a_factor(now: int, before: int, shown: str) -> None:
    assert format_change(now, before) == shown


def test_nothing_hides_in_a_text() -> None:
    assert reveal_hidden("a\u202eb\x00c\u200b\nd") == "a□202E□b□0000□c□200B□\nd"
    assert reveal_hidden("Grüße, 世界") == "Grüße, 世界"
    assert "□202E□" in format_json({"a": "\u202e"})


def test_query_strings_hold_only_values_that_are_set() -> None:
    assert encode_query({"a": "x y", "b": "", "c": None}, d="&") == "a=x+y&d=%26"
    assert encode_segment("acme.com/KYC") == "acme.com/KYC"
    assert encode_segment('a"><b?#') == "a%22%3E%3Cb%3F%23"


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_whatever_a_text_holds_it_stays_text(text: str) -> None:
    ways = {"keys": True, "people": True, "is_open": False}
    values = {"goal": "/", "problem": text, "ways": ways, "provider": None}
    page = render_template("login.html", frame=_frame(), **values).decode()
    inside = page.partition('role="alert">')[2].partition("</p>  <p>A login stays")[0]

    assert "<" not in inside
    assert '"' not in inside


def _frame() -> PageFrame:
    return PageFrame(
        title="",
        section="",
        name=None,
        tenant="",
        tenants=[],
        may_label=False,
        sees_all=True,
        sample=False,
        target="/",
        zone="utc",
        carried={},
    )


def test_a_static_file_is_kept_for_ever_under_a_name_of_its_content(site: Site) -> None:
    answer = site.get(asset_path("app.css"))

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["etag"].strip('"') in asset_path("app.css")


def test_a_browser_that_has_the_file_gets_nothing_again(site: Site) -> None:
    etag = site.get(asset_path("live.js")).headers["etag"]
    again = site.get(asset_path("live.js"), **{"if-none-match": etag})

    assert again.status_code == 304
    assert again.content == b""


def test_other_names_are_not_found(site: Site) -> None:
    for name in ("app.css", "app.0000000000000000.css", "..%2fassets.py", "%2e%2e/pages.py"):
        assert site.call("GET", f"/static/{name}").status_code == 404


def test_every_script_and_style_is_our_own_and_loads_nothing_from_elsewhere() -> None:
    for name, asset in load_assets().items():
        text = asset.content.decode()
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert "https://" not in text, name
        assert "@import" not in text, name
        assert "innerHTML" not in text, name
        assert "eval(" not in text, name
