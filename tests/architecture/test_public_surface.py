"""The public surface is small and known: the root, and one level below it.

`UPDATE_GOLDEN=1` writes `public_surface.txt` anew; a changed line there is a changed promise.
"""

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from measure_code import deep_imports

SNAPSHOT = Path(__file__).with_name("public_surface.txt")
MAX_ROOT_NAMES = 20
PUBLIC = (
    "demur",
    "demur.audit",
    "demur.classification",
    "demur.codes",
    "demur.detect",
    "demur.emit",
    "demur.enforce",
    "demur.evals",
    "demur.gate",
    "demur.grants",
    "demur.guards",
    "demur.memory",
    "demur.model",
    "demur.observe",
    "demur.policy",
    "demur.providers",
    "demur.respond",
    "demur.scorers",
    "demur.store",
    "demur.testing",
    "demur.triage",
)


def list_surface() -> str:
    lines = [
        f"{module}.{name}" for module in PUBLIC for name in sorted(import_module(module).__all__)
    ]
    return "\n".join(lines) + "\n"


def test_the_public_surface_is_the_one_on_record() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        SNAPSHOT.write_text(list_surface(), encoding="utf-8")

    assert list_surface() == SNAPSHOT.read_text(encoding="utf-8")


@pytest.mark.parametrize("module", PUBLIC)
def test_each_public_name_can_be_loaded(module: str) -> None:
    public = import_module(module)

    assert [name for name in public.__all__ if getattr(public, name, None) is None] == []


def test_the_root_stays_small() -> None:
    assert len(import_module("demur").__all__) <= MAX_ROOT_NAMES


def test_docs_and_examples_import_public_modules_only() -> None:
    assert sorted(set(deep_imports())) == []


def test_each_public_module_exists() -> None:
    assert [module for module in PUBLIC if find_spec(module) is None] == []
