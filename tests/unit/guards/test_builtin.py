import subprocess
import sys

import pytest

import demur.guards
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.guards.builtin import (
    BUILTIN,
    BuiltinGuard,
    load_builtin,
    find_builtin,
    config_type,
    event_type,
)


@pytest.mark.parametrize("surface", [builtin.surface for builtin in BUILTIN])
def test_every_built_in_guard_is_where_it_is_said_to_be(surface: Surface) -> None:
    builtin = find_builtin(surface)
    fields = getattr(event_type(surface), "__struct_fields__", ()) or event_type(surface)._fields

    guard = load_builtin(surface)

    assert surface == guard.SURFACE
    assert {builtin.text, builtin.items} - {None} <= set(fields)
    config_type(surface)()


def test_every_surface_of_guards_has_one() -> None:
    others = {Surface.POLICY, Surface.MEMORY, Surface.MODEL, Surface.RUNTIME}

    assert {builtin.surface for builtin in BUILTIN} == set(Surface) - others
    with pytest.raises(InputError, match="there is no guard for `policy`") as caught:
        load_builtin("policy")
    assert "code_execution" in str(caught.value.help)


def test_the_package_loads_its_names_when_they_are_used() -> None:
    code = (
        "import sys, demur.guards;"
        "print([n for n in sys.modules if n.startswith('demur.guards.')]);"
        "print(demur.guards.check('rate', {'key': 'a', 'limit': {'count': 1, 'per_s': 1}}));"
        "print('demur.guards.input.guard' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.splitlines() == ["[]", "[]", "False"]


def test_every_name_of_the_package_is_there_and_no_other() -> None:
    for name in demur.guards.__all__:
        assert getattr(demur.guards, name) is not None
        assert name in dir(demur.guards)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = demur.guards.nope


@pytest.mark.parametrize("builtin", BUILTIN, ids=lambda builtin: builtin.surface)
def test_the_registry_names_the_surface_of_every_code_of_a_guard(builtin: BuiltinGuard) -> None:
    core = Registry.load()
    guard = load_builtin(builtin.surface)

    missing = [code for code in guard.CODES if guard.SURFACE not in core[code].surfaces]
    assert missing == []
