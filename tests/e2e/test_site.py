"""The built site in a real browser without a network: search, menus, dark mode, copy buttons."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).parents[2] / "build/site"
FRONT = "docs/README.html"
PAGES = (
    FRONT,
    "docs/start/quickstart.html",
    "docs/start/which-door.html",
    "docs/explanation/overview.html",
    "docs/operate/kubernetes.html",
    "docs/reference/cli/audit.html",
    "docs/reference/api/demur.gate.html",
    "docs/reference/codes/RCE_RISK.html",
    "search.html",
)
# A page is wider than the screen only where a table or a block of code scrolls by itself.
WIDTH = "() => document.documentElement.scrollWidth - innerWidth"
UNLOADED = "() => [...document.images].filter((one) => !one.naturalWidth).map((one) => one.src)"

Tabs = Callable[..., Any]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not SITE.is_dir(), reason="`make docs` builds the site"),
]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_words: object) -> None:
        """Print nothing: a request is no news."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve the site as `make docs-serve` does."""
    handler = partial(QuietHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join(10)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_a_page_asks_no_host_for_anything_and_fits_the_screen(
    tabs: Tabs, width: int, scheme: str
) -> None:
    requests: list[str] = []
    tab = tabs(width=width, scheme=scheme)
    tab.context.set_offline(True)
    tab.page.on("request", lambda request: requests.append(request.url))
    page = tab.page
    for name in PAGES:
        page.goto((SITE / name).as_uri())

        assert page.evaluate(WIDTH) <= 0, name
        page.wait_for_function(f"() => ({UNLOADED})().length === 0")
    assert requests
    assert [one for one in requests if not one.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_nothing(tabs: Tabs, address: str, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = tabs(width=width, scheme=scheme).page
    for name in PAGES[:-1]:
        page.goto(address + name)
        found = axe.run(page).response["violations"]
        told = [(one["id"], node["html"][:160]) for one in found for node in one["nodes"]]
        assert told == [], name


def test_the_front_door_of_the_site_leads_to_its_front_page(tabs: Tabs, address: str) -> None:
    page = tabs().page
    page.goto(address)
    page.wait_for_url(f"**/{FRONT}")

    assert page.locator("h1").inner_text().startswith("demur")


def test_the_search_finds_a_code_and_asks_no_other_host(tabs: Tabs, address: str) -> None:
    requests: list[str] = []
    page = tabs().page
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address + FRONT)
    page.locator(".sidebar-search").fill("RCE_RISK")
    page.keyboard.press("Enter")

    page.locator("#search-results a", has_text="RCE_RISK").first.wait_for()
    assert [one for one in requests if not one.startswith(address)] == []


def test_a_reader_goes_on_by_menu_and_by_next(tabs: Tabs, address: str) -> None:
    page = tabs().page
    page.goto(address + FRONT)
    assert "0." in page.locator(".sidebar-brand-text").inner_text()
    page.locator(".sidebar-tree a", has_text="Start").first.click()
    page.wait_for_url("**/start/index.html")
    page.locator("a.next-page").click()

    page.wait_for_url("**/start/quickstart.html")
    assert page.locator("a.prev-page").count() == 1


def test_dark_mode_is_a_choice_of_the_reader(tabs: Tabs, address: str) -> None:
    page = tabs().page
    page.goto(address + FRONT)
    seen = set()
    for _ in range(3):
        page.locator(".theme-toggle-header, .theme-toggle-content").locator("visible=true").click()
        seen.add(page.evaluate("() => document.body.dataset.theme"))

    assert seen == {"auto", "light", "dark"}


def test_the_copy_button_leaves_prompts_and_output_out(tabs: Tabs, address: str) -> None:
    tab = tabs(permissions=["clipboard-read", "clipboard-write"])
    page = tab.page
    page.goto(f"{address}docs/start/quickstart.html")
    block = page.locator(".highlight-console").nth(1)
    block.hover()
    block.locator("button.copybtn").click()
    block.locator("button.copybtn.success").wait_for()

    assert page.evaluate("() => navigator.clipboard.readText()") == "python agent.py"
