import asyncio
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import httpx
import pytest
from support.dashboard_site import FORM, HTML, Page, Site, site_of, small_site
from support.gates import CORE, NOON, Ticking, gate_over, refund
from support.service_app import add_key

from demur.service.authentication import Role, make_key
from demur.service.dashboard import PAGES
from demur.service.settings import ServiceSettings
from demur.store.opening import open_store


def test_every_link_leads_somewhere(site: Site) -> None:
    waiting, seen = ["/"], set[str]()
    while waiting:
        path = waiting.pop()
        # The same pages in another zone are left out.
        if path in seen or path.startswith("#") or "zone=" in path:
            continue
        seen.add(path)
        answer = site.get(path)
        assert answer.status_code == 200, path
        # One reason and one decision stand for all of them.
        plain = len(seen) < 90 and answer.headers["content-type"].startswith("text/html")
        waiting += sorted(Page(answer.text).links()) if plain else []

    assert {
        "/decisions",
        "/reasons",
        "/review",
        "/evals",
        "/codes",
        "/triage",
        "/openapi.json",
    } <= {path.partition("?")[0] for path in seen}


def test_only_the_way_in_and_static_files_are_open_to_everybody() -> None:
    open_to_all = {(route.method, route.path) for route in PAGES if route.role is None}

    assert open_to_all == {
        ("GET", "/login"),
        ("POST", "/login"),
        ("GET", "/login/oidc"),
        ("GET", "/login/oidc/callback"),
        ("POST", "/logout"),
        ("GET", "/static/{name}"),
    }


def test_labels_take_the_role_for_labels() -> None:
    labels = [route for route in PAGES if route.path.endswith("/label")]

    assert [route.role for route in labels] == [Role.LABEL, Role.LABEL]


@pytest.fixture
def locked() -> Iterator[tuple[Site, str]]:
    """Yield the pages of a service that asks for keys, and a key."""
    with gate_over(open_store(":memory:")) as gate:
        assert gate.store is not None
        key = add_key(gate.store, "acme", "read", "label")
        with site_of(gate, clock=Ticking(NOON + timedelta(minutes=5))) as site:
            yield site, key


def test_a_stranger_is_led_to_the_login_and_back(locked: tuple[Site, str]) -> None:
    site, key = locked
    asked = site.get("/decisions?verdict=DENY")
    page = site.open(asked.headers["location"])
    [goal] = [one.attrs["value"] for one in page.all("input") if one.attrs["name"] == "next"]
    answer = site.send("/login", {"key": f" {key} ", "next": goal})

    assert asked.status_code == 303
    assert answer.headers["location"] == "/decisions?verdict=DENY"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly; SameSite=Strict" in cookie
    assert "Secure" not in cookie
    pair = cookie.partition(";")[0]
    assert "Decisions" in site.open("/decisions", cookie=pair).text
    assert "Tenant acme" in site.open("/decisions", cookie=pair).text
    assert "Log out" in site.open("/", cookie=pair).text


def test_a_program_gets_a_problem_and_no_page(locked: tuple[Site, str]) -> None:
    site, _ = locked
    answer = site.call("GET", "/decisions")

    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_form_without_a_key_gets_a_link_to_log_in(locked: tuple[Site, str]) -> None:
    site, _ = locked
    answer = site.send("/decisions/x/label", {"value": "good"})

    assert answer.status_code == 401
    assert "/login" in answer.text


@pytest.mark.parametrize("key", ["", "demur_wrong_key", "é"])
def test_a_wrong_key_is_refused_and_not_shown(locked: tuple[Site, str], key: str) -> None:
    site, _ = locked
    answer = site.send("/login", {"key": key, "next": "//evil.example"})

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "demur_wrong_key" not in answer.text
    assert "evil" not in answer.text


def test_a_key_that_cannot_read_is_not_let_in(locked: tuple[Site, str]) -> None:
    site, _ = locked
    key = add_key(site.call.store, "acme", "decide")

    answer = site.send("/login", {"key": key})

    assert answer.status_code == 401
    assert "may not read" in answer.text


def test_the_cookie_is_for_https_alone_where_that_is_spoken(locked: tuple[Site, str]) -> None:
    site, key = locked
    asked = site.call.run(_secure_login(site, key))

    assert "; Secure" in asked


async def _secure_login(site: Site, key: str) -> str:
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": f"key={key}".encode()}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await site.call.app(
        {
            "type": "http",
            "method": "POST",
            "path": "/login",
            "query_string": b"",
            "scheme": "https",
            "headers": [(b"host", b"localhost")],
            "client": ("127.0.0.1", 1),
        },
        receive,
        send,  # type: ignore[arg-type]
    )
    headers = dict(sent[0]["headers"])  # type: ignore[call-overload]
    return str(headers[b"set-cookie"])


class Clock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


def session_of(login: httpx.Response) -> str:
    """Return the cookie of a login, as a browser sends it back."""
    return login.headers["set-cookie"].partition(";")[0]


def test_a_session_is_no_key_and_ends_with_logout(locked: tuple[Site, str]) -> None:
    site, key = locked
    login = site.send("/login", {"key": key})
    cookie = session_of(login)
    secret = cookie.partition("=")[2]
    stored = site.call.store.list_sessions()

    assert key not in login.headers["set-cookie"]
    assert secret not in str(stored)
    assert site.get("/decisions", cookie=cookie).status_code == 200
    assert site.get("/decisions", cookie=f"demur_session={key}").status_code == 303
    assert site.call("GET", "/v1/codes", key=secret).status_code == 401
    other = session_of(site.send("/login", {"key": key}))
    assert site.send("/logout", {}, cookie=cookie).status_code == 303
    assert site.get("/decisions", cookie=cookie).status_code == 303
    assert site.get("/decisions", cookie=other).status_code == 200
    assert len(site.call.store.list_sessions()) == 1


def test_a_session_reads_and_labels_and_does_nothing_else(site: Site) -> None:
    key = add_key(site.call.store, "", "admin")
    cookie = {"cookie": session_of(site.send("/login", {"key": key}))}

    assert site.call("GET", "/v1/codes", headers=cookie).status_code == 200
    for method, path in (("GET", "/v1/keys"), ("POST", "/v1/decide")):
        assert site.call(method, path, headers=cookie).status_code == 403


def test_a_session_ends_with_its_key_and_in_time() -> None:
    clock = Clock(NOON)
    with small_site(settings=ServiceSettings(key_memory_s=0.2), clock=clock) as site:
        short = make_key("acme", ["read"], lifetime=timedelta(hours=1), clock=clock)
        long = make_key("acme", ["read"], lifetime=timedelta(days=30), clock=clock)
        for made in (short, long):
            site.call.store.add_key(made.key)
        cookies = [session_of(site.send("/login", {"key": one.token})) for one in (short, long)]

        def let_in() -> list[bool]:
            return [site.get("/decisions", cookie=one).status_code == 200 for one in cookies]

        assert let_in() == [True, True]
        clock.now += timedelta(hours=1)
        assert let_in() == [False, True]
        clock.now += timedelta(hours=11)
        assert let_in() == [False, False]
        cookies[1] = session_of(site.send("/login", {"key": long.token}))
        assert let_in() == [False, True]
        site.call.store.revoke_key(long.key.key_id, "2026-11-15T12:00:00.000Z")
        site.call.service.authenticator._cache.expire()
        assert let_in() == [False, False]


def test_another_process_knows_a_session_and_its_end(locked: tuple[Site, str]) -> None:
    site, key = locked
    cookie = session_of(site.send("/login", {"key": key}))
    with site_of(site.call.service.gate) as other:
        assert other.get("/decisions", cookie=cookie).status_code == 200
        site.send("/logout", {}, cookie=cookie)
        other.call.service.authenticator._cache.expire()
        assert other.get("/decisions", cookie=cookie).status_code == 303


def test_a_session_behind_a_proxy_is_secure() -> None:
    settings = ServiceSettings(proxies=("127.0.0.1",))
    with small_site(settings=settings) as site:
        key = add_key(site.call.store, "acme", "read")
        tls = {"x-forwarded-proto": "https", "x-forwarded-for": "1.2.3.4"}
        login = site.send("/login", {"key": key}, **tls)
        cookie = session_of(login)

        assert cookie.startswith("__Host-demur_session=session_")
        assert login.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")
        assert site.get("/decisions", cookie=cookie, **tls).status_code == 200
        # The same cookie over a plain connection counts for nothing.
        assert site.get("/decisions", cookie=cookie).status_code == 303
        planted = cookie.removeprefix("__Host-")
        assert site.get("/decisions", cookie=planted, **tls).status_code == 303


def test_a_service_behind_tls_sets_secure_cookies_only() -> None:
    with small_site(settings=ServiceSettings(behind_tls=True)) as site:
        key = add_key(site.call.store, "", "read")
        login = site.send("/login", {"key": key})
        chosen = site.get("/decisions?tenant=a", cookie=session_of(login))

    assert "; Secure" in login.headers["set-cookie"]
    assert chosen.headers["set-cookie"].startswith("__Host-demur_tenant=a;")
    assert "; Secure" in chosen.headers["set-cookie"]


def test_behind_a_trusted_proxy_each_address_has_its_own_login_attempts() -> None:
    with small_site(settings=ServiceSettings(proxies=("127.0.0.1",))) as site:
        add_key(site.call.store, "acme", "read")

        def attempt(address: str) -> int:
            headers = {"x-forwarded-for": address}
            return site.send("/login", {"key": "x"}, **headers).status_code

        statuses = [attempt("1.2.3.4") for _ in range(25)]
        assert 429 in statuses
        assert attempt("1.2.3.5") == 401


def test_logging_out_forgets_the_key(locked: tuple[Site, str]) -> None:
    site, _ = locked
    answer = site.send("/logout", {})

    assert answer.headers["location"] == "/login"
    gone = "demur_session=; Path=/; Max-Age=0; Expires=Thu, 01 Jan 1970"
    assert gone in answer.headers["set-cookie"]


def test_an_unrestricted_user_can_choose_a_tenant(site: Site) -> None:
    site.call.service.gate.decide(refund(), tenant="a b;c")
    answer = site.send("/tenant", {"tenant": "a b;c", "next": "/decisions"})
    pair = answer.headers["set-cookie"].partition(";")[0]
    page = site.open(answer.headers["location"], cookie=pair)
    chosen = [one.text for one in page.all("option") if "selected" in one.attrs]

    assert chosen[:1] == ["a b;c"]
    assert len(page.all("tbody")[-1].all("tr")) == 1
    assert len(site.open("/decisions?tenant=", cookie=pair).all("tbody")[-1].all("tr")) == 6


def test_a_tenant_that_is_not_there_stays_chosen(site: Site) -> None:
    page = site.open("/decisions", cookie="demur_tenant=nobody")

    assert next(one.text for one in page.all("option") if "selected" in one.attrs) == "nobody"
    assert "No decisions yet" in page.text


def test_an_address_that_names_a_tenant_chooses_it(site: Site) -> None:
    cookie = site.get("/decisions?tenant=default").headers["set-cookie"]

    assert cookie.startswith("demur_tenant=default; Path=/")
    assert "set-cookie" not in site.get("/decisions").headers


def test_login_attempts_are_rate_limited_but_not_for_a_key_in_use(
    locked: tuple[Site, str],
) -> None:
    site, key = locked
    made_up = [f"demur_{'a' * 8}_{'b' * 50}{one}{two}" for one in "abcdef" for two in "abcd"]
    # Counted alike, and without a look at the store each.
    answers = [site.send("/login", {"key": f"x{one}"}) for one in made_up]

    assert [one.status_code for one in answers] == [401] * 20 + [429] * 4
    assert answers[-1].headers["retry-after"] == "1"
    assert "too many login attempts" in answers[-1].text
    assert site.call("GET", "/v1/codes", key=key).status_code == 200
    login = site.send("/login", {"key": key})
    assert login.status_code == 303
    assert site.get("/decisions", cookie=session_of(login)).status_code == 200


def test_a_flood_of_logins_takes_no_thread_from_others(locked: tuple[Site, str]) -> None:
    site, key = locked
    service = site.call.service

    async def flood() -> int:
        made_up = [f"demur_{'a' * 8}_{'b' * 50}a{letter}" for letter in "abcdefghijklmnop"]
        names: set[str] = set()
        sent = [
            asyncio.create_task(
                site.call._called(
                    "POST", "/login", f"key={one}".encode(), {**HTML, **FORM}, ("10.0.0.1", 1)
                )
            )
            for one in made_up
        ]
        while not all(one.done() for one in sent):
            names |= {thread.name.rpartition("_")[0] for thread in threading.enumerate()}
            await asyncio.sleep(0.01)
        assert {one.result().status_code for one in sent} == {401}
        return sum(name in {"asyncio", "demur-pages", "demur-service"} for name in names)

    assert site.call.run(flood()) == 0
    assert asyncio.run(service.authenticator.authenticate(key)).tenant == "acme"


def test_every_code_is_in_the_reference(site: Site) -> None:
    links = site.open("/codes").links()

    assert {f"/reasons/{entry.code}" for entry in CORE} <= links


def test_codes_are_searched_by_name_meaning_and_old_phrase(site: Site) -> None:
    by_name = site.open("/codes?q=chargeback risk").links()
    by_phrase = site.open("/codes?q=destructive command blocked").links()

    assert "/reasons/CHARGEBACK_RISK_BLOCK" in by_name
    assert "/reasons/RCE_RISK" not in by_name
    assert "/reasons/DESTRUCTIVE_ACTION" in by_phrase


def test_a_search_that_finds_nothing_helps_on(site: Site) -> None:
    assert "No code is like that" in site.open("/codes?q=zzzz").text


def test_codes_are_narrowed_by_class_and_severity(site: Site) -> None:
    page = site.open("/codes?class=HARD_BLOCK&severity=critical")
    rows = [one.attrs for one in page.all("tr") if "data-text" in one.attrs]

    assert rows
    assert {one["data-class"] for one in rows} == {"HARD_BLOCK"}
    assert {one["data-severity"] for one in rows} == {"critical"}
    assert f"{len(rows)} of " in page.text
    assert "No code is like that" in site.open("/codes?class=NO_SUCH").text
    allowing = site.open("/codes?class=allows").all("tr")
    assert {one.attrs["data-class"] for one in allowing if "data-class" in one.attrs} == {"allows"}
