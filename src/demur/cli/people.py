"""`demur people`: the service key, and the people who log in to the dashboard."""

import getpass
import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import msgspec

from demur.cli.grants import write_key_file
from demur.cli.main import Arguments, UsageError
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_existing_store,
)
from demur.errors import InputError, one_line
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import CONFIG_NAME, Config, open_configured_store
from demur.grants.keys import KEY_BYTES
from demur.grants.person_keys import ServiceKey
from demur.service.authentication import PERSON_ROLES
from demur.service.people import (
    Passwords,
    change_password,
    find_person,
    fold_login,
    make_change,
    make_person,
)
from demur.store.people_tables import Person, can_sign
from demur.store.store import Store

_BY = "command line"
_ROLES_HELP = "reader, reviewer (also labels), approver (also approves), or admin"


def configure_people_init(add: Arguments) -> None:
    """Add the command's arguments."""
    add_config_option(add)


def run_people_init(args: Namespace) -> int:
    """Make the service key, and the file by which other gates trust it."""
    config = load_settings(args)
    path = Path(config.people.key)
    if path.exists():
        # It must be usable: a key that nobody can use is no reason to make another one.
        key = ServiceKey.from_file(path)
        print(f"{path}: there is a service key already, {key.issuer.key_id}")
        return 0
    key = ServiceKey(os.urandom(KEY_BYTES))
    trusted = path.with_name(f"{path.name.removesuffix('.key')}.trusted.json")
    write_key_file(path, key.to_json(), secret=True)
    write_key_file(trusted, msgspec.json.encode(key.issuer.trusted_key()), secret=False)
    print(f"{path}: keep it with the service alone, and not in backups of the store")
    print(f"{trusted}: name it as `people.trusted` for gates that cannot read the key")
    return 0


def configure_people_add(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("the password is asked for, or read as one line of standard input")
    add("login LOGIN", "the name to log in with, like mary or mary@example.org")
    whose = add.either(required=True)
    whose("--tenant TENANT", "the tenant that the person sees")
    whose("--all-tenants", "the person sees every tenant")
    add("--role ROLE", _ROLES_HELP, required=True, choices=list(PERSON_ROLES))
    add("--group GROUP ...", "a group of the person, to whom approvals can be addressed")
    add("--note TEXT", "a note on the person", default="")
    add("--reason TEXT", "why, for the chain", default="a new person")
    add("--json", "one JSON object")
    add_config_option(add)


def run_people_add(args: Namespace) -> int:
    """Add a person."""
    if args.tenant == "":
        help_text = "--all-tenants lets a person see every tenant"
        raise UsageError("--tenant must not be empty", help=help_text)
    config = load_settings(args)
    now = format_timestamp(system_clock())
    # Check everything else before the password is asked for.
    person = make_person(
        args.login, args.role, tenant=args.tenant or "", now=now, groups=args.group, note=args.note
    )
    with _open_store(config) as store:
        if store.get_person(person.login) is not None:
            help_text = f"`demur people change {person.login}` changes roles"
            raise InputError(f"there is a person `{person.login}` already", help=help_text)
        person = person._replace(password_hash=Passwords().hash(read_password(confirm=True)))
        store.add_person(person, by=_BY, reason=args.reason, now=now)
    if args.json:
        print(json.dumps(describe_person(person)))
        return 0
    whose = f"the tenant {person.tenant}" if person.tenant else "all tenants"
    print(one_line(f"added {person.login}: {person.role} of {whose}"))
    if can_sign(person) and not Path(config.people.key).exists():
        print(Paint()("  to approve takes a service key: `demur people init` makes it", "dim"))
    return 0


def configure_people_list(add: Arguments) -> None:
    """Add the command's arguments."""
    add_tenant_option(add)
    add("--json", "one JSON object per person")
    add_config_option(add)


def run_people_list(args: Namespace) -> int:
    """Print the people."""
    with open_existing_store(load_settings(args)) as store:
        people = store.list_people(args.tenant)
    if args.json:
        for person in people:
            print(json.dumps(describe_person(person)))
        return 0
    paint = Paint()
    if not people:
        print(paint("no people; add one with `demur people add`", "dim"))
        return 0
    head = ("LOGIN", "TENANT", "ROLE", "GROUPS", "STATE", "NOTE")
    print(format_table(map(_person_row, people), head, paint))
    return 0


def describe_person(person: Person) -> dict[str, Any]:
    """Return a person as JSON fields, without the password."""
    names = ("login", "tenant", "role", "issuer", "created_at", "disabled_at", "note")
    return {**{name: getattr(person, name) for name in names}, "groups": person.groups.split()}


def _person_row(person: Person) -> tuple[str, ...]:
    if person.disabled_at is not None:
        state = f"disabled {person.disabled_at[:10]}"
    else:
        state = "by OpenID Connect" if person.oidc_subject is not None else "by password"
    tenant, note = one_line(person.tenant or "(all)"), one_line(person.note)
    return (person.login, tenant, person.role, person.groups, state, note)


def configure_people_change(add: Arguments) -> None:
    """Add the command's arguments."""
    add("login LOGIN", "the person")
    add("--role ROLE", _ROLES_HELP, choices=list(PERSON_ROLES))
    groups = add.either()
    groups("--group GROUP ...", "the groups of the person from now on", default=None)
    groups("--no-groups", "the person is in no group")
    add("--enable", "let a disabled person log in again")
    add("--note TEXT", "a note on the person")
    add("--reason TEXT", "why, for the chain", default="a change of the person")
    add("--json", "one JSON object")
    add_config_option(add)


def run_people_change(args: Namespace) -> int:
    """Change a person."""
    change = make_change(
        role=args.role,
        groups=() if args.no_groups else args.group,
        note=args.note,
        disabled=False if args.enable else None,
    )
    if all(value is None for value in change):
        raise UsageError("nothing to change", help="name a role, groups, a note, or --enable")
    return _change_person(args, change, "changed")


def configure_people_disable(add: Arguments) -> None:
    """Add the command's arguments."""
    add("login LOGIN", "the person")
    add("--reason TEXT", "why, for the chain", default="the person has left")
    add("--json", "one JSON object")
    add_config_option(add)


def run_people_disable(args: Namespace) -> int:
    """Disable a person: end the sessions, and retire the key."""
    return _change_person(args, make_change(disabled=True), "disabled")


def _change_person(args: Namespace, change: Any, done: str) -> int:
    now, login = format_timestamp(system_clock()), fold_login(args.login)
    with open_existing_store(load_settings(args)) as store:
        before = _require_person(store, login)
        after = store.change_person(login, change, by=_BY, reason=args.reason, now=now)
    if args.json:
        print(json.dumps(describe_person(after)))
        return 0
    print(f"{done} {login}: {after.role}")
    if after.generation != before.generation:
        print(Paint()("  a running service ends the sessions within seconds", "dim"))
    return 0


def configure_people_password(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("the password is asked for, or read as one line of standard input")
    add("login LOGIN", "the person")
    add_config_option(add)


def run_people_password(args: Namespace) -> int:
    """Give a person another password."""
    login = fold_login(args.login)
    with open_existing_store(load_settings(args)) as store:
        _require_person(store, login)
        now = format_timestamp(system_clock())
        password = read_password(confirm=True)
        change_password(store, Passwords(), login, password, by=_BY, now=now)
    print(f"{login} has another password; a running service ends the sessions within seconds")
    return 0


def read_password(*, confirm: bool) -> str:
    """Return a password: asked for at a terminal, or else the first line of standard input.

    Raises:
        InputError: None came, or it was not repeated.
    """
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line:
            help_text = "write it as one line to standard input, or run this in a terminal"
            raise InputError("a password is needed", help=help_text)
        return line.removesuffix("\n").removesuffix("\r")
    password = getpass.getpass("password: ")
    if confirm and getpass.getpass("once more: ") != password:
        raise InputError("the two passwords differ")
    return password


def _require_person(store: Store, login: str) -> Person:
    person = find_person(store, login)
    if person is None:
        help_text = "`demur people list` lists them"
        raise InputError(f"there is no person `{login[:100]}`", help=help_text)
    return person


def _open_store(config: Config) -> Store:
    store = open_configured_store(config)
    if store is None:
        raise InputError(
            "the settings name no store to keep people in",
            help=f'set `store = "demur.db"` in {CONFIG_NAME}',
        )
    return store
