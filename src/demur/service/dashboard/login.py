"""Log in and out: the key is kept in an HttpOnly cookie, the chosen tenant in another."""

from datetime import timedelta

from demur.service.access import NOBODY, Principal, Role
from demur.service.call import Answer, Call
from demur.service.dashboard.forms import form_of
from demur.service.dashboard.frame import CLIENT, cookie_for, is_path, page, tenant_cookie
from demur.service.headers import COOKIE
from demur.service.problem import ProblemError

__all__ = ["login", "login_page", "logout", "switch_tenant"]

_LONGEST_KEY = 200


async def login_page(call: Call) -> Answer:
    """Return the form that asks for a key."""
    return _asking(call, call.query.get("next", "/"), "")


async def login(call: Call) -> Answer:
    """Log in with a key that has the role `read`.

    Raises:
        ProblemError: There were too many attempts.
    """
    given = form_of(call.body)
    token, goal = given.get("key", "").strip(), given.get("next", "/")
    problem = "An API key is required." if not token else ""
    if not problem:
        caller = await _known(call, token[:_LONGEST_KEY])
        if isinstance(caller, ProblemError):
            problem = f"{caller.problem[:1].upper()}{caller.problem[1:]}."
        elif not caller.may(Role.READ):
            problem = "This key may not read decisions."
    if problem:
        return _asking(call, goal, problem)
    return _leading(goal, cookie_for(call, f"{COOKIE}={token}"))


async def _known(call: Call, token: str) -> Principal | ProblemError:
    """Return the caller that a key belongs to, or the error."""
    door = call.service.doorkeeper
    known = door.remembered(token)
    if known is None:
        call.service.logins.count(call.headers.get(CLIENT, ""))
        try:
            known = await door.admit(token)
        except ProblemError as error:
            return error
    return known


def _asking(call: Call, goal: str, problem: str) -> Answer:
    # Without a caller the frame needs no store, so it renders here and not on a thread.
    return page(
        call._replace(caller=NOBODY),
        "login.html",
        title="Log in",
        status=401 if problem else 200,
        goal=goal if is_path(goal) else "/",
        problem=problem,
    )


async def logout(call: Call) -> Answer:
    """Delete the cookie with the key."""
    return _leading("/login", cookie_for(call, f"{COOKIE}=", timedelta()))


async def switch_tenant(call: Call) -> Answer:
    """Choose another tenant, for a key of all tenants."""
    given = form_of(call.body)
    return _leading(given.get("next", "/"), tenant_cookie(call, given.get("tenant", "")))


def _leading(goal: str, cookie: str) -> Answer:
    location = goal if is_path(goal) else "/"
    return Answer(b"", 303, headers={"location": location, "set-cookie": cookie})
