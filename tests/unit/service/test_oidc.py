"""Sign-in at a provider that answers over HTTP, signs with real keys, and sometimes lies."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dashboard_site import Site, site_of
from support.gates import NOON, Ticking, gate_over
from support.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider
from support.people import AUTHOR, add_person

from demur.errors import InputError
from demur.gate.config import load_config
from demur.gate.people import OidcSettings, PeopleSettings
from demur.service.authentication import PERSON_ROLES
from demur.service.oidc import OidcError, find_claim, read_identity
from demur.store.opening import open_store
from demur.store.people_tables import PersonChange

ROLES: Any = {"staff": "reader", "approvers": "approver", "demur-admins": "admin"}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("DEMUR_TEST_SECRET", CLIENT_SECRET)
    with running_provider() as running:
        yield running


def settings_for(provider: Provider, **more: Any) -> PeopleSettings:
    usual: dict[str, Any] = {
        "issuer": provider.issuer,
        "client_id": CLIENT_ID,
        "client_secret_env": "DEMUR_TEST_SECRET",
        "roles": ROLES,
        "group_claim": "groups",
    }
    return PeopleSettings(oidc=OidcSettings(**{**usual, **more}))


@pytest.fixture
def site(provider: Provider) -> Iterator[Site]:
    with (
        gate_over(open_store(":memory:")) as gate,
        site_of(gate, people=settings_for(provider), clock=Ticking()) as site,
    ):
        yield site


def begin(site: Site, goal: str = "/decisions?verdict=DENY") -> tuple[str, str]:
    """Return where the browser is sent, and its cookie."""
    asked = site.get(f"/login/oidc?next={goal}")
    assert asked.status_code == 303, asked.text
    cookie = asked.headers["set-cookie"]
    assert "HttpOnly; SameSite=Lax" in cookie
    return asked.headers["location"], cookie.partition(";")[0]


def come_back(site: Site, address: str, cookie: str) -> httpx.Response:
    """Return the answer to a browser that the provider sent back."""
    parts = urlsplit(address)
    return site.get(f"{parts.path}?{parts.query}", cookie=cookie)


def sign_in(site: Site, provider: Provider, goal: str = "/") -> httpx.Response:
    address, cookie = begin(site, goal)
    return come_back(site, provider.authorize(address), cookie)


def session_of(answer: httpx.Response) -> str:
    pair: str = answer.headers["set-cookie"].partition(";")[0]
    return pair


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_person_signs_in_and_goes_on_where_they_wanted_to(
    site: Site, provider: Provider, algorithm: str
) -> None:
    provider.algorithm = algorithm
    answer = sign_in(site, provider, "/decisions?verdict=DENY")

    assert answer.status_code == 200
    assert "0; url=&#x2f;decisions?verdict=DENY" in answer.text
    assert "SameSite=Strict" in answer.headers["set-cookie"]
    person = site.call.store.get_person("mary")
    assert person is not None
    assert (person.role, person.groups, person.tenant) == ("approver", "approvers staff", "default")
    assert (person.issuer, person.password_hash) == (provider.issuer, None)
    page = site.open("/account", cookie=session_of(answer))
    assert "mary, approver of the tenant default" in page.text
    assert "your password is there" in page.text


def test_the_provider_is_asked_for_a_code_with_a_challenge_of_this_browser(
    site: Site, provider: Provider
) -> None:
    first, second = begin(site)[0], begin(site)[0]
    queries = [parse_qs(urlsplit(one).query) for one in (first, second)]

    for name in ("state", "nonce", "code_challenge"):
        assert queries[0][name] != queries[1][name]
        assert len(queries[0][name][0]) == 43
    assert queries[0]["redirect_uri"] == ["http://localhost/login/oidc/callback"]
    assert provider.calls.count("/.well-known/openid-configuration") == 1


Lie = Callable[[Provider], None]


def claims_with(**changed: Any) -> Lie:
    """Return what makes a provider change claims; None drops one."""

    def lie(provider: Provider) -> None:
        def change(claims: dict[str, Any]) -> dict[str, Any]:
            found = {**claims, **changed}
            return {name: value for name, value in found.items() if value is not None}

        provider.change_claims = change

    return lie


def set_to(**values: Any) -> Lie:
    def lie(provider: Provider) -> None:
        for name, value in values.items():
            setattr(provider, name, value)

    return lie


NOW = int(NOON.timestamp())


@pytest.mark.parametrize(
    ("lie", "problem"),
    [
        (claims_with(nonce="another"), "belongs to another sign-in"),
        (claims_with(nonce=None), "belongs to another sign-in"),
        (claims_with(aud="somebody else"), "for another client"),
        (claims_with(aud=None), "for another client"),
        (claims_with(aud=[CLIENT_ID, "other"]), "for several clients"),
        (claims_with(azp="other"), "for another client"),
        (claims_with(iss="https://evil.example"), "from another issuer"),
        (claims_with(exp=NOW - 61), "has expired"),
        (claims_with(exp=None), "has no time"),
        (claims_with(exp="tomorrow"), "has no time"),
        (claims_with(iat=NOW + 120), "not valid yet"),
        (claims_with(nbf=NOW + 120), "not valid yet"),
        (claims_with(sub=""), "names no subject"),
        (claims_with(sub="a\0"), "names no subject"),
        (claims_with(sub=7), "names no subject"),
        (claims_with(preferred_username=None), "has no claim"),
        (claims_with(preferred_username="<b>"), "is no login"),
        (claims_with(groups=["visitors"]), "gives you no role"),
        (set_to(algorithm="none"), "no signature of the provider"),
        (set_to(algorithm="HS256"), "no signature of the provider"),
        (set_to(forged=True), "no signature of the provider"),
        (set_to(change_token=lambda token: f"{token[:-8]}AAAAAAAA"), "no signature"),
        (set_to(change_token=lambda _: "not a token"), "no signature"),
        (set_to(change_token=lambda token: token * 200), "too long"),
        (set_to(change_metadata=lambda _: {"issuer": 3}), "in an unknown form"),
        (
            set_to(change_metadata=lambda found: {**found, "issuer": "https://evil.example"}),
            "calls itself",
        ),
        (
            set_to(change_metadata=lambda found: {**found, "token_endpoint": "http://10.0.0.1/"}),
            "without https",
        ),
        (
            set_to(
                change_metadata=lambda found: {
                    **found,
                    "id_token_signing_alg_values_supported": ["none", "HS256"],
                }
            ),
            "in no way that demur accepts",
        ),
        (set_to(status=500), "answers with status 500"),
        (set_to(status=302), "answers with status 302"),
    ],
)
def test_a_provider_that_lies_lets_nobody_in(
    site: Site, provider: Provider, lie: Lie, problem: str
) -> None:
    lie(provider)
    asked = site.get("/login/oidc")
    answer = asked
    if asked.status_code == 303:
        cookie = asked.headers["set-cookie"].partition(";")[0]
        answer = come_back(site, provider.authorize(asked.headers["location"]), cookie)

    assert answer.status_code == 401
    assert problem in answer.text
    assert "demur_session" not in answer.headers.get("set-cookie", "")
    assert site.call.store.list_people() == []
    assert site.call.store.list_sessions() == []


def test_an_answer_counts_only_in_the_browser_that_asked(site: Site, provider: Provider) -> None:
    address, cookie = begin(site)
    _, other_cookie = begin(site)
    back = provider.authorize(address)

    for sent in ("", other_cookie, "demur_sign_in=x", "demur_sign_in=" + "a" * 52 + ".%2F"):
        answer = come_back(site, back, sent)
        assert answer.status_code == 401
        assert "was not begun in this browser" in answer.text
    assert come_back(site, f"{back}x", cookie).status_code == 401
    changed = back.replace("state=", "state=x")
    assert come_back(site, changed, cookie).status_code == 401
    assert site.call.store.list_people() == []


def test_a_code_works_once(site: Site, provider: Provider) -> None:
    address, cookie = begin(site)
    back = provider.authorize(address)

    assert come_back(site, back, cookie).status_code == 200
    again = come_back(site, back, cookie)
    assert again.status_code == 401
    assert "answers with status 400" in again.text


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("error=access_denied", "the identity provider refused: access_denied"),
        ("code=x&iss=https://evil.example", "from another identity provider"),
        ("", "sent no code"),
    ],
)
def test_an_answer_without_a_code_of_this_provider_is_refused(
    site: Site, provider: Provider, query: str, problem: str
) -> None:
    address, cookie = begin(site)
    state = parse_qs(urlsplit(address).query)["state"][0]

    answer = site.get(f"/login/oidc/callback?state={state}&{query}", cookie=cookie)
    assert answer.status_code == 401
    assert problem.capitalize()[:20].lower() in answer.text.lower()
    assert "/token" not in provider.calls


def test_nobody_takes_over_the_login_of_somebody_else(site: Site, provider: Provider) -> None:
    add_person(site.call.store, "mary", "admin", tenant="", password_hash="x")
    answer = sign_in(site, provider)

    assert answer.status_code == 401
    assert "Somebody else has the login" in answer.text
    person = site.call.store.get_person("mary")
    assert person is not None
    assert (person.role, person.oidc_subject) == ("admin", None)


def test_a_name_that_moved_to_another_subject_stays_with_the_first(
    site: Site, provider: Provider
) -> None:
    assert sign_in(site, provider).status_code == 200
    provider.claims["sub"] = "other"

    assert sign_in(site, provider).status_code == 401
    provider.claims |= {"sub": "248289761001", "preferred_username": "mary.new"}
    assert sign_in(site, provider).status_code == 200
    assert [one.login for one in site.call.store.list_people()] == ["mary"]


def test_roles_and_groups_follow_the_provider_at_each_sign_in(
    site: Site, provider: Provider
) -> None:
    first = session_of(sign_in(site, provider))
    provider.claims["groups"] = ["staff"]
    second = session_of(sign_in(site, provider))

    person = site.call.store.get_person("mary")
    assert person is not None
    assert (person.role, person.groups) == ("reader", "staff")
    assert site.get("/", cookie=first).status_code == 303
    assert site.get("/", cookie=second).status_code == 200

    provider.claims["groups"] = []
    assert sign_in(site, provider).status_code == 401
    person = site.call.store.get_person("mary")
    assert person is not None
    assert person.role not in PERSON_ROLES
    assert site.get("/", cookie=second).status_code == 303


def test_who_is_disabled_here_does_not_sign_in_there(site: Site, provider: Provider) -> None:
    sign_in(site, provider)
    site.call.store.change_person("mary", PersonChange(disabled=True), **AUTHOR)

    answer = sign_in(site, provider)
    assert answer.status_code == 401
    assert "disabled here" in answer.text


def test_new_keys_of_the_provider_are_read_when_a_token_names_them(provider: Provider) -> None:
    clock = Ticking()
    with (
        gate_over(open_store(":memory:")) as gate,
        site_of(gate, people=settings_for(provider), clock=clock) as site,
    ):
        rsa, ec = provider.keys
        provider.keys = [rsa]
        assert sign_in(site, provider).status_code == 200
        provider.keys, provider.algorithm = [rsa, ec], "ES256"
        # Not at once, so that made-up keys cause no flood of calls.
        assert sign_in(site, provider).status_code == 401
        clock.advance(seconds=31)
        assert sign_in(site, provider).status_code == 200
        assert provider.calls.count("/keys") == 2


def test_a_provider_that_is_gone_is_an_error_of_the_login(provider: Provider) -> None:
    people = settings_for(provider, issuer="http://127.0.0.1:9")
    with gate_over(open_store(":memory:")) as gate, site_of(gate, people=people) as site:
        answer = site.get("/login/oidc")

    assert answer.status_code == 401
    assert "does not answer" in answer.text


def test_without_its_secret_no_client_signs_in(
    site: Site, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEMUR_TEST_SECRET")
    answer = sign_in(site, provider)

    assert answer.status_code == 401
    assert "DEMUR_TEST_SECRET" in answer.text


def test_sign_ins_are_counted_as_attempts_to_log_in(site: Site) -> None:
    answers = [site.get("/login/oidc/callback?state=x").status_code for _ in range(40)]

    assert 429 in answers


def test_a_goal_elsewhere_is_not_gone_to(site: Site, provider: Provider) -> None:
    answer = sign_in(site, provider, "//evil.example")

    assert answer.status_code == 200
    assert "evil" not in answer.text


def test_without_a_provider_there_is_no_such_page() -> None:
    with gate_over(open_store(":memory:")) as gate, site_of(gate) as site:
        assert site.get("/login/oidc").status_code == 404
        assert site.get("/login/oidc/callback").status_code == 404


@given(
    st.lists(st.sampled_from([*ROLES, "visitors", "admin", "approver"]), max_size=5),
    st.sampled_from(["list", "text", "path"]),
)
def test_claims_give_the_roles_of_the_settings_alone(values: list[str], shape: str) -> None:
    """INVARIANT: a person has no more power than the roles of the settings give."""
    name = "realm_access.roles" if shape == "path" else "groups"
    oidc = OidcSettings(issuer="https://id.example", client_id="x", role_claim=name, roles=ROLES)
    found: Any = values[0] if shape == "text" and values else values
    claims = {"sub": "7", "preferred_username": "mary", "groups": found}
    if shape == "path":
        claims = {**claims, "groups": list(ROLES), "realm_access": {"roles": values}}
    counted = values[:1] if shape == "text" else values

    role = read_identity(oidc, claims).role
    allowed = {ROLES[value] for value in counted if value in ROLES}
    assert (role is None) == (not allowed)
    assert role is None or role in allowed
    assert all(len(PERSON_ROLES[one]) <= len(PERSON_ROLES[role or one]) for one in allowed)


def test_an_address_counts_as_a_login_only_once_it_was_verified() -> None:
    oidc = OidcSettings(
        issuer="https://id.example", client_id="x", login_claim="email", roles=ROLES
    )
    claims = {"sub": "7", "email": "Mary@Example.org", "groups": ["staff"]}

    with pytest.raises(OidcError, match="not verified"):
        read_identity(oidc, claims)
    assert read_identity(oidc, {**claims, "email_verified": True}).login == "mary@example.org"


def test_a_claim_is_found_by_its_name_before_its_path() -> None:
    claims = {"https://x.example/roles": [1], "a": {"b": 2}}

    assert find_claim(claims, "https://x.example/roles") == [1]
    assert find_claim(claims, "a.b") == 2
    assert find_claim(claims, "a.b.c") is None
    assert find_claim(claims, "nothing") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('issuer = "http://id.example"\nclient_id = "x"\nroles = {}', "is an https:// address"),
        ('issuer = "https://id.example"\nclient_id = "x"\nroles = {a = "king"}', "king"),
        ('client_id = "x"\nroles = {}', "issuer"),
    ],
)
def test_settings_of_a_provider_that_cannot_be_used_say_why(
    tmp_path: Any, text: str, problem: str
) -> None:
    path = tmp_path / "demur.toml"
    path.write_text(f"[people.oidc]\n{text}\n")

    with pytest.raises(InputError, match=problem):
        load_config(path)
