"""Log in and out: the key is kept in an HttpOnly cookie, the chosen tenant in another."""

from datetime import timedelta

from demur.service.access import NOBODY, Principal, Role
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.forms import parse_form
from demur.service.dashboard.frame import (
    CLIENT,
    make_cookie,
    is_local_path,
    render_page,
    tenant_cookie,
)
from demur.service.headers import COOKIE
from demur.service.problem import ProblemError

__all__ = ["log_in", "login_page", "log_out", "switch_tenant"]

_MAX_KEY_LENGTH = 200


async def login_page(call: ApiCall) -> ApiAnswer:
    """Return the form that asks for a key."""
    return _render_login(call, call.query.get("next", "/"), "")


async def log_in(call: ApiCall) -> ApiAnswer:
    """Log in with a key that has the role `read`.

    Raises:
        ProblemError: There were too many attempts.
    """
    given = parse_form(call.body)
    token, goal = given.get("key", "").strip(), given.get("next", "/")
    problem = "An API key is required." if not token else ""
    if not problem:
        caller = await _authenticate_key(call, token[:_MAX_KEY_LENGTH])
        if isinstance(caller, ProblemError):
            problem = f"{caller.problem[:1].upper()}{caller.problem[1:]}."
        elif not caller.has_role(Role.READ):
            problem = "This key may not read decisions."
    if problem:
        return _render_login(call, goal, problem)
    return _redirect_with_cookie(goal, make_cookie(call, f"{COOKIE}={token}"))


async def _authenticate_key(call: ApiCall, token: str) -> Principal | ProblemError:
    """Return the caller that a key belongs to, or the error."""
    door = call.service.authenticator
    known = door.cached_principal(token)
    if known is None:
        call.service.login_limiter.count_attempt(call.headers.get(CLIENT, ""))
        try:
            known = await door.authenticate(token)
        except ProblemError as error:
            return error
    return known


def _render_login(call: ApiCall, goal: str, problem: str) -> ApiAnswer:
    # Without a caller the frame needs no store, so it renders here and not on a thread.
    return render_page(
        call._replace(caller=NOBODY),
        "login.html",
        title="Log in",
        status=401 if problem else 200,
        goal=goal if is_local_path(goal) else "/",
        problem=problem,
    )


async def log_out(call: ApiCall) -> ApiAnswer:
    """Delete the cookie with the key."""
    return _redirect_with_cookie("/login", make_cookie(call, f"{COOKIE}=", timedelta()))


async def switch_tenant(call: ApiCall) -> ApiAnswer:
    """Choose another tenant, for a key of all tenants."""
    given = parse_form(call.body)
    return _redirect_with_cookie(
        given.get("next", "/"), tenant_cookie(call, given.get("tenant", ""))
    )


def _redirect_with_cookie(goal: str, cookie: str) -> ApiAnswer:
    location = goal if is_local_path(goal) else "/"
    return ApiAnswer(b"", 303, headers={"location": location, "set-cookie": cookie})
