"""The page of people, for admins: who may log in, with which role."""

from collections.abc import Mapping
from typing import Any

from demur.errors import InputError
from demur.service.authentication import PERSON_ROLES
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.frame import describe_error, parse_form, render_page
from demur.service.people import make_change
from demur.service.problem import ProblemError, invalid_call
from demur.service.routes.people import (
    add_checked_person,
    change_checked_person,
    require_admin_person,
)

_MAX_SHOWN = 500
# What a form keeps that could not be used; never the password.
_KEPT_FIELDS = ("login", "role", "tenant", "groups", "note")


def people_page(call: ApiCall) -> ApiAnswer:
    """Return the people that the caller may see."""
    return _render_people(call, "", {})


def change_people(call: ApiCall) -> ApiAnswer:
    """Add a person, or change the role or the state of one.

    Raises:
        ProblemError: The caller is no person, or may not change this one.
    """
    form = parse_form(call.body)
    require_admin_person(call)
    try:
        _apply_form(call, form)
    except ProblemError as error:
        if error.status != 422:
            raise
        return _render_people(call, describe_error(error), form)
    except InputError as error:
        return _render_people(call, describe_error(error), form)
    return ApiAnswer(b"", 303, headers={"location": "/people"})


def _apply_form(call: ApiCall, form: Mapping[str, str]) -> None:
    login, does = form.get("login", ""), form.get("do", "")
    if does == "add":
        tenant = call.caller.tenant if call.caller.tenant is not None else form.get("tenant", "")
        add_checked_person(
            call,
            login,
            form.get("role", ""),
            tenant=tenant,
            groups=form.get("groups", "").split(),
            password=form.get("password", ""),
            note=form.get("note", ""),
        )
        return
    if does == "role":
        change = make_change(role=form.get("role", ""), groups=form.get("groups", "").split())
    elif does in {"disable", "enable"}:
        change = make_change(disabled=does == "disable")
    else:
        raise invalid_call(422, "the form does not say what to do", "do")
    change_checked_person(call, login, change)


def _render_people(call: ApiCall, problem: str, form: Mapping[str, str]) -> ApiAnswer:
    people = call.service.store.list_people(call.caller.tenant)
    rows: list[dict[str, Any]] = [
        {**one._asdict(), "password_hash": None, "own": one.login == call.caller.person}
        for one in people[:_MAX_SHOWN]
    ]
    return render_page(
        call,
        "people.html",
        title="People",
        section="people",
        status=422 if problem else 200,
        problem=problem,
        rows=rows,
        total=len(people),
        roles=list(PERSON_ROLES),
        form={name: form.get(name, "") for name in _KEPT_FIELDS},
        may_change=call.caller.person is not None,
    )
