"""What a screen reader, a keyboard and a reader with little sight need, checked on every page."""

import re
from datetime import timedelta
from itertools import pairwise

import pytest
from support.dashboard_site import Element, Page, Site, fill, small_site
from support.eval_runs import NO, PART, YES, a_run
from support.gates import NOON, Ticking, refund

from demur.service.dashboard.rendering import load_assets
from demur.service.settings import ServiceSettings

PATHS = (
    *("/", "/?last=7d", "/decisions", "/decisions?verdict=DENY", "/decisions?q=nobody"),
    *("/reasons", "/reasons/CHARGEBACK_RISK_BLOCK", "/reasons/RCE_RISK", "/review"),
    *("/evals", "/evals/over", "/evals/torn"),
    *(
        "/review?queue=missed_harm",
        "/codes",
        "/triage",
        "/report",
        "/report?since=2000-01-01&until=2100-01-01",
        "/docs",
        "/login",
        "/nowhere",
        "/decisions/{id}",
    ),
)
NAMED = ("aria-labelledby", "aria-describedby", "for", "list", "data-copy", "data-swap")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    """Return all pages of a service with some decisions and runs, each opened once."""
    runs = tmp_path_factory.mktemp("runs")
    a_run(runs / "over", {"good-1": NO, "bad-2": YES, "good-3": PART})
    (runs / "torn").mkdir()
    (runs / "torn" / "run.json").write_text("{")
    settings = ServiceSettings(runs=str(runs))
    with small_site(clock=Ticking(NOON + timedelta(minutes=5)), settings=settings) as site:
        fill(site)
        found = site.call("GET", "/v1/decisions?code=PROMPT_LEAK").json()["decisions"]
        return {
            path: site.open(
                path.format(id=found[0]["decision_id"]), 404 if path == "/nowhere" else 200
            )
            for path in PATHS
        }


@pytest.fixture(params=PATHS)
def page(request: pytest.FixtureRequest, pages: dict[str, Page]) -> Page:
    """Return one of all pages."""
    return pages[request.param]


def named(element: Element, page: Page) -> bool:
    """Return whether an element has a name that can be read out."""
    attrs = element.attrs
    labels = {one.attrs.get("for") for one in page.all("label")}
    return bool(
        attrs.get("aria-label")
        or element.text
        or any(one.tag == "title" for one in element.children)
        or attrs.get("id") in labels
        or "aria-labelledby" in attrs
    )


def test_the_page_is_well_formed_and_has_its_landmarks(page: Page) -> None:
    assert page.problems == []
    [html] = page.all("html")
    assert html.attrs["lang"] == "en"
    assert len(page.all("main")) == len(page.all("header")) == len(page.all("footer")) == 1
    [title] = [one for one in page.all("title") if one.within("head")]
    assert title.text.endswith("· demur")
    assert page.all("a")[0].attrs["href"] == "#main"
    assert any(one.attrs.get("aria-live") == "polite" for one in page.all())


def test_headings_follow_each_other(page: Page) -> None:
    levels = [
        int(one.tag[1]) for one in page.all("h1", "h2", "h3", "h4") if not one.within("dialog")
    ]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_ids_are_unique_and_every_reference_resolves(page: Page) -> None:
    ids = [one.attrs["id"] for one in page.all() if "id" in one.attrs]
    wanted = {
        reference
        for one in page.all()
        for name in NAMED
        for reference in one.attrs.get(name, "").split()
    }
    wanted |= {link[1:] for link in page.links() if link.startswith("#")}

    assert len(ids) == len(set(ids))
    assert wanted <= set(ids)


def test_everything_to_use_has_a_name(page: Page) -> None:
    for one in page.all("a", "button", "select", "textarea", "input", "summary"):
        if one.attrs.get("type") != "hidden":
            assert named(one, page), (one.tag, one.attrs)
    for one in page.all("section", "nav", "form", "aside"):
        if one.attrs.get("role") or one.tag in {"nav", "aside"}:
            assert named(one, page), one.attrs


def test_pictures_are_named_or_kept_quiet(page: Page) -> None:
    for one in page.all("svg"):
        if not one.within("svg"):
            quiet = one.attrs.get("aria-hidden") == "true"
            told = one.attrs.get("role") in {"img", "group"} and one.attrs.get("aria-label")
            assert quiet or told, one.attrs


def test_tables_say_what_their_columns_are(page: Page) -> None:
    for table in page.all("table"):
        assert table.all("th")
        assert all(one.attrs.get("scope") in {"col", "row"} for one in table.all("th"))


def test_no_page_carries_code_or_styles_of_its_own(page: Page) -> None:
    for one in page.all():
        assert "style" not in one.attrs
        assert not [name for name in one.attrs if name.startswith("on")]
    for script in page.all("script"):
        assert script.attrs["src"].startswith("/static/")
        assert script.text == ""
    assert page.all("style") == []


CSS = load_assets()["app.css"].content.decode()
COLOURS: dict[str, str] = dict(re.findall(r"--([a-z-]+): light-dark\((#\w{6}, #\w{6})\)", CSS))
TEXT_ON = [
    *(("ink", on) for on in ("paper", "card", "raised", "mark", "allow-tint", "escalate-tint")),
    *(("soft", on) for on in ("paper", "card", "raised")),
    *(("accent", on) for on in ("paper", "card", "raised")),
    ("on-accent", "accent-fill"),
    *((name, "card") for name in ("allow", "escalate", "abstain", "deny", "good")),
    *((name, f"{name}-tint") for name in ("allow", "escalate", "abstain", "deny", "good")),
    ("accent", "good-tint"),
    ("escalate", "mark"),
]
SHAPES_ON = [
    *((f"{name}-fill", "card") for name in ("allow", "escalate", "abstain", "deny", "accent")),
    *(("edge", on) for on in ("paper", "card")),
]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_texts_and_shapes_stand_out_in_both_themes(theme: int) -> None:
    def of(name: str) -> str:
        return COLOURS[name].split(", ")[theme]

    weak = [
        (text, ground, round(contrast(of(text), of(ground)), 2))
        for pairs, least in ((TEXT_ON, 4.5), (SHAPES_ON, 3.0))
        for text, ground in pairs
        if contrast(of(text), of(ground)) < least
    ]

    assert weak == []


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_verdict_colours_differ_in_lightness(theme: int) -> None:
    # Amber and red are what people confuse; blue is told from both by everybody.
    fills = [COLOURS[f"{name}-fill"].split(", ")[theme] for name in ("escalate", "deny")]

    assert contrast(*fills) > 1.4


def test_every_verdict_has_a_shape_and_a_word(site: Site) -> None:
    site.decide(refund())
    verdicts = [
        one
        for one in site.open("/decisions").all("span")
        if one.attrs.get("class", "").startswith("verdict")
    ]

    assert {one.text for one in verdicts} == {"Allowed", "Needs something", "Refused"}
    assert all(one.all("svg") for one in verdicts)


def test_hidden_elements_have_no_layout() -> None:
    """A list of suggestions that is given a layout takes up its room on the page."""
    style = load_assets()["app.css"].content.decode()
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", style)
    laid_out = {
        name
        for selector, body in rules
        if "display:" in body
        for name in re.findall(r"#([\w-]+)", selector)
    }
    with small_site() as site:
        hidden = {one.attrs["id"] for one in site.open("/decisions").all("datalist")}

    assert hidden
    assert not hidden & laid_out
