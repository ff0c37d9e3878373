"""What all tests share: hypothesis profiles, a clean environment, and small registries."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support.property_runs import PROFILE, examples

from demur.codes.document import SCHEMA_VERSION, RegistryDocument, read_document
from demur.codes.registry import Registry

pytest_plugins = ["support.installed_guards", "support.postgres_server", "support.redis_server"]

# A loaded machine draws slowly; that says nothing about the code under test.
settings.register_profile(
    "quick",
    derandomize=True,
    deadline=None,
    max_examples=examples(70),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("full", parent=settings.get_profile("quick"))
settings.register_profile(
    "explore",
    parent=settings.get_profile("quick"),
    derandomize=False,
    max_examples=5000,
    print_blob=True,
)
settings.load_profile(PROFILE)

# What the shell of a developer sets must not decide what a test sees.
for name in ("DEMUR_REGISTRY", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
    os.environ.pop(name, None)

# Compiled rules are kept beside the tests, and not in the cache of whoever runs them.
os.environ["DEMUR_CACHE"] = str(Path(__file__).parents[1] / ".demur_cache")


@pytest.fixture(scope="session")
def core() -> Registry:
    """Return the core registry."""
    return Registry.load()


def organisation_text(*rows: Mapping[str, Any], **head: Any) -> str:
    """Return the registry file of `acme.com`; a row says only what is special about it."""
    row = {"parent": "POLICY_VIOLATION", "description": "A made-up reason.", "since": "1.0.0"}
    file = {
        "schema_version": SCHEMA_VERSION,
        "version": "1.0.0",
        "domain": "acme.com",
        **head,
        "codes": [{**row, **given} for given in rows],
    }
    return json.dumps(file, indent=2)


@pytest.fixture(scope="session")
def acme_text() -> Callable[..., str]:
    """Return the function that writes a registry file of `acme.com`."""
    return organisation_text


@pytest.fixture(scope="session")
def acme() -> Callable[..., RegistryDocument]:
    """Return the function that makes the registry document of `acme.com`."""
    return lambda *rows, **head: read_document("acme.json", organisation_text(*rows, **head))
