"""Log in with a key, with a name and a password, or at an identity provider; and log out.

Each login gets a new session, so that nobody can prepare one for another. Logging in and out are
forms, which only pages of this service may send.
"""

import logging
import re
from base64 import b32encode
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote

from demur.errors import DemurError, InputError
from demur.gate.clock import format_timestamp, system_entropy
from demur.service.authentication import NOBODY, LoginWays, Principal, Role, person_principal
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.cookies import (
    COOKIE_LIFETIME,
    SESSION_COOKIE,
    SIGN_IN_COOKIE,
    make_cookie,
    read_cookie,
)
from demur.service.dashboard.frame import describe_error, is_local_path, parse_form, render_page
from demur.service.oidc import OidcError, OidcIdentity
from demur.service.people import (
    MAX_PASSWORD_LENGTH,
    change_password,
    log_in_person,
    make_change,
    make_person,
)
from demur.service.problem import ProblemError, forbidden, invalid_call
from demur.store.backend import StorageError
from demur.store.people_tables import Person, PersonChange
from demur.store.store import Store

_log = logging.getLogger("demur.service")
_MAX_KEY_LENGTH = 200
_SIGN_IN_TIME = timedelta(minutes=10)
_SIGN_IN_BYTES = 32
_SIGN_IN = re.compile(r"([a-z2-7]{52})\.(.{0,2000})", re.ASCII)
_CALLBACK = "/login/oidc/callback"
# The role of a person whom the identity provider gives none any more.
_NO_ROLE = "none"
_ALL_WAYS = LoginWays(keys=True, people=True, is_open=False)
_WRONG_PASSWORD = "This name and password do not belong together."  # noqa: S105 - a message


async def login_page(call: ApiCall) -> ApiAnswer:
    """Return the forms that ask for a key, or a name and a password."""
    return await _render_login(call, call.query.get("next", "/"), "")


async def log_in(call: ApiCall) -> ApiAnswer:
    """Log in with a key that has the role `read`, or with a name and a password.

    Raises:
        ProblemError: There were too many attempts.
    """
    form = parse_form(call.body)
    goal = form.get("next", "/")
    if "login" in form:
        return await _log_in_person(call, form["login"], form.get("password", ""), goal)
    token = form.get("key", "").strip()
    if not token:
        return await _render_login(call, goal, "An API key is required.")
    door = call.service.authenticator
    caller = door.cached_principal(token[:_MAX_KEY_LENGTH])
    if caller is None:
        call.service.login_limiter.count_attempt(call.origin.address)
        try:
            caller = await door.authenticate(token[:_MAX_KEY_LENGTH])
        except ProblemError as error:
            return await _render_login(call, goal, describe_error(error))
    if not caller.has_role(Role.READ):
        return await _render_login(call, goal, "This key may not read decisions.")
    await call.service.count_call(caller)
    return await _open_session(call, caller, goal)


async def _log_in_person(call: ApiCall, login: str, password: str, goal: str) -> ApiAnswer:
    service = call.service
    service.login_limiter.count_attempt(call.origin.address)
    person = await service.password_pool.run_for(
        call.origin.address,
        log_in_person,
        service.store,
        service.passwords,
        login[:MAX_PASSWORD_LENGTH],
        password,
    )
    if person is None:
        return await _render_login(call, goal, _WRONG_PASSWORD)
    return await _open_session(call, person_principal(person), goal, person.generation)


async def _open_session(
    call: ApiCall, caller: Principal, goal: str, generation: int = 0
) -> ApiAnswer:
    secret = await _replace_session(call, caller, generation)
    return redirect_with(goal, _session_cookie(call, secret))


async def _replace_session(call: ApiCall, caller: Principal, generation: int) -> str:
    """Open a session, and end the one that the browser had."""
    door = call.service.authenticator
    await _close_session(call)
    return await call.run_blocking(
        door.open_session, caller, COOKIE_LIFETIME, generation=generation
    )


async def _close_session(call: ApiCall) -> None:
    door = call.service.authenticator
    secret = read_cookie(call.headers, SESSION_COOKIE, is_secure=call.origin.is_secure)
    if await door.find_session(secret) is not None:
        await call.run_blocking(door.close_session, secret)


def _session_cookie(call: ApiCall, secret: str) -> str:
    lifetime = COOKIE_LIFETIME if secret else timedelta()
    secure = call.origin.is_secure
    return make_cookie(SESSION_COOKIE, secret, is_secure=secure, lifetime=lifetime)


async def _render_login(call: ApiCall, goal: str, problem: str) -> ApiAnswer:
    try:
        ways = await call.service.authenticator.find_ways()
    except StorageError:
        # Show all ways; logging in then reports that the store is down.
        ways = _ALL_WAYS
    oidc = call.service.oidc
    # Without a caller the frame needs no store, so it renders here and not on a thread.
    return render_page(
        call._replace(caller=NOBODY),
        "login.html",
        title="Log in",
        status=401 if problem else 200,
        goal=goal if is_local_path(goal) else "/",
        problem=problem,
        ways=ways._asdict(),
        provider=None if oidc is None else oidc.name,
    )


async def log_out(call: ApiCall) -> ApiAnswer:
    """End the session, and delete its cookie."""
    await _close_session(call)
    return redirect_with("/login", _session_cookie(call, ""))


def redirect_with(goal: str, cookie: str) -> ApiAnswer:
    """Return a redirect to a page of this service that sets a cookie."""
    location = goal if is_local_path(goal) else "/"
    return ApiAnswer(b"", 303, headers={"location": location, "set-cookie": cookie})


# -- OpenID Connect ------------------------------------------------------------------------


async def begin_sign_in(call: ApiCall) -> ApiAnswer:
    """Lead the browser to the identity provider.

    Raises:
        ProblemError: There is none, or there were too many attempts.
    """
    oidc, goal = call.service.oidc, call.query.get("next", "/")
    if oidc is None:
        raise invalid_call(404, "no identity provider is set", help="the setting `people.oidc`")
    call.service.login_limiter.count_attempt(call.origin.address)
    secret = b32encode(system_entropy(_SIGN_IN_BYTES)).decode().rstrip("=").lower()
    try:
        location = await oidc.begin(secret, _redirect_uri(call))
    except OidcError as error:
        return await _refuse_sign_in(call, error)
    value = f"{secret}.{quote(goal if is_local_path(goal) else '/', safe='')[:2000]}"
    cookie = _sign_in_cookie(call, value, _SIGN_IN_TIME)
    return ApiAnswer(b"", 303, headers={"location": location, "set-cookie": cookie})


async def finish_sign_in(call: ApiCall) -> ApiAnswer:
    """Log in the person whom the identity provider names.

    The answer is a page and no redirect: browsers send no strict cookie along a chain of redirects
    that another site began.

    Raises:
        ProblemError: There is no provider, or there were too many attempts.
    """
    oidc = call.service.oidc
    if oidc is None:
        raise invalid_call(404, "no identity provider is set", help="the setting `people.oidc`")
    call.service.login_limiter.count_attempt(call.origin.address)
    value = read_cookie(call.headers, SIGN_IN_COOKIE, is_secure=call.origin.is_secure)
    found = _SIGN_IN.fullmatch(value)
    if found is None:
        error = OidcError("this sign-in was not begun in this browser, or too long ago")
        return await _refuse_sign_in(call, error)
    try:
        identity = await oidc.finish(found[1], call.query, _redirect_uri(call))
        person = await call.run_blocking(
            admit_identity,
            call.service.store,
            identity,
            tenant=oidc.settings.tenant,
            now=format_timestamp(call.service.clock()),
        )
    except (OidcError, InputError) as error:
        return await _refuse_sign_in(call, error)
    finally:
        # Earlier sessions may have ended, also if this sign-in failed.
        call.service.authenticator.expire()
    secret = await _replace_session(call, person_principal(person), person.generation)
    goal = unquote(found[2])
    answer = render_page(
        call._replace(caller=NOBODY),
        "signed_in.html",
        title="Signed in",
        goal=goal if is_local_path(goal) else "/",
        login=person.login,
    )
    cookie = _session_cookie(call, secret)
    return answer._replace(headers={**answer.headers, "set-cookie": cookie})


def admit_identity(store: Store, identity: OidcIdentity, *, tenant: str, now: str) -> Person:
    """Return the person of an identity, with the role and the groups that it has now.

    The first sign-in adds the person. It never takes over a person who logs in otherwise.

    Raises:
        OidcError: The person has no role, is disabled, or another person has the login.
    """
    author = {"by": "identity provider", "now": now}
    person = store.find_oidc_person(identity.issuer, identity.subject)
    if person is None:
        if identity.role is None:
            raise OidcError("the identity provider gives you no role here")
        person = make_person(
            identity.login,
            identity.role,
            tenant=tenant,
            now=now,
            groups=identity.groups,
            identity=(identity.issuer, identity.subject),
        )
        if store.get_person(person.login) is not None:
            raise OidcError(f"somebody else has the login `{person.login}` here")
        store.add_person(person, reason="the first sign-in", **author)
        return person
    change = PersonChange(role=_NO_ROLE)
    if identity.role is not None:
        change = make_change(role=identity.role, groups=identity.groups)
    # Also of a disabled person: who is enabled again has the role of today.
    person = store.change_person(
        person.login, change, reason="signed in with other roles", **author
    )
    if identity.role is None:
        raise OidcError("the identity provider gives you no role here")
    if person.disabled_at is not None:
        raise OidcError("this person is disabled here")
    return person


async def _refuse_sign_in(call: ApiCall, error: DemurError) -> ApiAnswer:
    _log.warning("sign-in failed: %s", error)
    return await _render_login(call, "/", describe_error(error))


def _sign_in_cookie(call: ApiCall, value: str, lifetime: timedelta) -> str:
    # Lax: the provider's page leads back here, and the cookie has to come along.
    secure = call.origin.is_secure
    return make_cookie(SIGN_IN_COOKIE, value, is_secure=secure, lifetime=lifetime, same_site="Lax")


def _redirect_uri(call: ApiCall) -> str:
    # The host is one of those that this service answers to.
    scheme = "https" if call.origin.is_secure else "http"
    return f"{scheme}://{call.headers.get('host', '')}{_CALLBACK}"


# -- the person's own account --------------------------------------------------------------


def account_page(call: ApiCall) -> ApiAnswer:
    """Return who is logged in, and the form for another password."""
    return _render_account(call, {})


async def change_own_password(call: ApiCall) -> ApiAnswer:
    """Change the password of the person who is logged in; all sessions end but a new one.

    Raises:
        ProblemError: The caller is no person, or there were too many attempts.
    """
    login, service = call.caller.person, call.service
    if login is None:
        raise forbidden("only a person who is logged in has a password")
    form = parse_form(call.body)
    service.login_limiter.count_attempt(call.origin.address)

    def change() -> Person | None:
        known = log_in_person(service.store, service.passwords, login, form.get("password", ""))
        if known is None:
            return None
        new, now = form.get("new", ""), format_timestamp(service.clock())
        return change_password(
            service.store, service.passwords, login, new, by=f"person:{login}", now=now
        )

    problem = "The new passwords differ."
    if form.get("new") == form.get("again"):
        try:
            person = await service.password_pool.run_for(call.caller.name, change)
        except InputError as error:
            problem = describe_error(error)
        else:
            service.authenticator.expire()
            if person is not None:
                return await _open_session(call, call.caller, "/account", person.generation)
            problem = "The present password is wrong."
    return await call.run_blocking(_render_account, call, {"problem": problem})


def _render_account(call: ApiCall, values: dict[str, Any]) -> ApiAnswer:
    login = call.caller.person
    person = None if login is None else call.service.store.get_person(login)
    return render_page(
        call,
        "account.html",
        title="Your account",
        section="account",
        status=422 if values else 200,
        account=None if person is None else person._asdict() | {"password_hash": None},
        has_password=person is not None and person.password_hash is not None,
        roles=sorted(role for role in Role if call.caller.has_role(role)),
        **{"problem": "", **values},
    )
