"""People over HTTP, for admins: list, add and change them. Only a person changes people.

A key of an admin lists people. It changes none: otherwise a machine could make itself an approver.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from demur.gate.clock import format_timestamp
from demur.service.authentication import Role
from demur.service.calls import TENANT_PARAMETER, ApiCall, RouteTable
from demur.service.people import (
    LOGIN_PATTERN,
    MAX_LOGIN_LENGTH,
    MAX_NOTE_LENGTH,
    MAX_PASSWORD_LENGTH,
    MIN_PASSWORD_LENGTH,
    find_person,
    make_change,
    make_person,
)
from demur.service.problem import forbidden, invalid_call
from demur.store.people_tables import Person, PersonChange

PEOPLE_ROUTES = RouteTable()
_Role = Literal["reader", "reviewer", "approver", "admin"]
_Text = Annotated[str, msgspec.Meta(max_length=MAX_NOTE_LENGTH, pattern="^[^\\x00]*$")]
_Group = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\s\x00]+$")]
_Groups = Annotated[tuple[_Group, ...], msgspec.Meta(max_length=50)]
_Login = Annotated[
    str, msgspec.Meta(min_length=1, max_length=MAX_LOGIN_LENGTH, pattern=LOGIN_PATTERN)
]
_Password = Annotated[
    str, msgspec.Meta(min_length=MIN_PASSWORD_LENGTH, max_length=MAX_PASSWORD_LENGTH)
]


class PersonWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person to add, with a first password. `""` as the tenant is for all tenants."""

    login: _Login
    role: _Role
    password: _Password
    tenant: _Text | None = None
    groups: _Groups = ()
    note: _Text = ""


class PersonChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to change of a person; what is left out stays."""

    role: _Role | None = None
    groups: _Groups | None = None
    note: _Text | None = None
    disabled: bool | None = None


class PersonView(msgspec.Struct, frozen=True, kw_only=True):
    """A person without the password. With an `issuer`, they sign in at that identity provider."""

    login: str
    tenant: str
    role: str
    groups: list[str]
    issuer: str | None
    created_at: str
    disabled_at: str | None
    note: str


class People(msgspec.Struct, frozen=True, kw_only=True):
    """People, by login."""

    people: list[PersonView]


def person_view(person: Person) -> PersonView:
    """Return a person without the password."""
    shown = {name: getattr(person, name) for name in PersonView.__struct_fields__}
    return PersonView(**{**shown, "groups": person.groups.split()})


def require_admin_person(call: ApiCall) -> str:
    """Return the login of the admin who calls.

    Raises:
        ProblemError: The caller is a key.
    """
    if call.caller.person is None:
        raise forbidden(
            "only a person who is logged in changes people",
            help="or use `demur people` on the machine of the service",
        )
    return call.caller.person


def add_checked_person(
    call: ApiCall,
    login: str,
    role: str,
    *,
    tenant: str | None,
    password: str,
    groups: Iterable[str] = (),
    note: str = "",
) -> Person:
    """Add a person of a tenant that the caller may manage.

    Raises:
        ProblemError: The caller may not.
        InputError: A value is invalid, or the login is taken.
    """
    by, own = require_admin_person(call), call.caller.tenant
    chosen = (own or "") if tenant is None else tenant
    # INVARIANT: an admin of one tenant changes nobody of another.
    if own is not None and chosen != own:
        raise forbidden("this person belongs to another tenant")
    now = format_timestamp(call.service.clock())
    person = make_person(login, role, tenant=chosen, now=now, groups=groups, note=note)
    person = person._replace(password_hash=call.service.passwords.hash(password))
    call.service.store.add_person(person, by=f"person:{by}", reason="a new person", now=now)
    call.service.authenticator.expire()
    return person


def change_checked_person(call: ApiCall, login: str, change: PersonChange) -> Person:
    """Change a person whom the caller may manage.

    Raises:
        ProblemError: There is no such person, or the caller may not.
    """
    by, own, store = require_admin_person(call), call.caller.tenant, call.service.store
    found = find_person(store, login)
    if found is None or own not in {None, found.tenant}:
        raise invalid_call(404, "there is no such person")
    now = format_timestamp(call.service.clock())
    reason = "a change of the person"
    after = store.change_person(found.login, change, by=f"person:{by}", reason=reason, now=now)
    call.service.authenticator.expire()
    return after


@PEOPLE_ROUTES.add_sync(
    "GET /v1/people", "list people", Role.ADMIN, gives=People, query=(TENANT_PARAMETER,)
)
def list_people(call: ApiCall) -> People:
    """List people."""
    people = call.service.store.list_people(call.chosen_tenant())
    return People(people=[person_view(one) for one in people])


@PEOPLE_ROUTES.add_sync(
    "POST /v1/people",
    "add person",
    Role.ADMIN,
    takes=PersonWanted,
    gives=PersonView,
    success=201,
    example={
        "login": "mary",
        "role": "approver",
        "password": "a first sentence to log in with",
        "tenant": "acme",
        "groups": ["finance"],
    },
)
def add_person(call: ApiCall) -> PersonView:
    """Add a person, as an admin who is logged in."""
    body = call.decode_body(PersonWanted)
    person = add_checked_person(
        call,
        body.login,
        body.role,
        tenant=body.tenant,
        password=body.password,
        groups=body.groups,
        note=body.note,
    )
    return person_view(person)


@PEOPLE_ROUTES.add_sync(
    "POST /v1/people/{login}",
    "change person",
    Role.ADMIN,
    takes=PersonChanges,
    gives=PersonView,
    statuses=(404,),
    example={"role": "reviewer"},
)
def change_person(call: ApiCall) -> PersonView:
    """Change a person, as an admin who is logged in."""
    body = call.decode_body(PersonChanges)
    change = make_change(role=body.role, groups=body.groups, note=body.note, disabled=body.disabled)
    return person_view(change_checked_person(call, call.path["login"], change))
