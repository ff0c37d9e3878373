"""The page of settings is complete, and its defaults and its example are true."""

import json
import re
from pathlib import Path

import pytest

from demur.gate.approvals import ApprovalSettings
from demur.gate.config import Config, load_config
from demur.gate.guard_settings import GuardSettings, ToolSettings
from demur.gate.people import OidcSettings, PeopleSettings
from demur.memory.recall import MemorySettings
from demur.scorers.settings import ModelSettings
from demur.service.settings import ServiceSettings

PAGE = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text(encoding="utf-8")
FILE, REST = PAGE.split("### `[memory]`")
MEMORY, REST = REST.split("### `[guards]`")
GUARDS, REST = REST.split("### `[guards.tools.NAME]`")
TOOLS, REST = REST.split("### `[guards.models.NAME]`")
MODELS, REST = REST.split("### `[approvals]`")
APPROVALS, REST = REST.split("### `[people]`")
PEOPLE, REST = REST.split("### `[people.oidc]`")
OIDC, SERVICE = REST.split("### `[service]`")


def rows(text: str) -> dict[str, str]:
    """Return the default that the page names for each setting."""
    found = re.findall(r"^\| `(\w+)` \| (.+?) \|", text.partition("\n## Env")[0], re.MULTILINE)
    return dict(found)


def test_every_setting_is_on_the_page_and_no_other() -> None:
    assert tuple(rows(FILE)) == Config.__struct_fields__
    assert tuple(rows(MEMORY)) == MemorySettings.__struct_fields__
    assert tuple(rows(GUARDS)) == GuardSettings.__struct_fields__
    assert tuple(rows(TOOLS)) == ToolSettings.__struct_fields__
    assert tuple(rows(MODELS)) == ModelSettings.__struct_fields__
    assert tuple(rows(APPROVALS)) == ApprovalSettings.__struct_fields__
    assert tuple(rows(PEOPLE)) == PeopleSettings.__struct_fields__
    assert tuple(rows(OIDC)) == OidcSettings.__struct_fields__
    assert tuple(rows(SERVICE)) == ServiceSettings.__struct_fields__


def test_every_default_of_approvals_is_true() -> None:
    for name, default in rows(APPROVALS).items():
        value = getattr(ApprovalSettings(), name)
        assert default == ("none" if value is None else f"`{json.dumps(value)}`"), name


def test_every_default_of_people_is_true() -> None:
    oidc = OidcSettings(issuer="https://id.example", client_id="x", roles={})
    for text, settings in ((PEOPLE, PeopleSettings()), (OIDC, oidc)):
        for name, default in rows(text).items():
            value = getattr(settings, name)
            shown = "none" if value is None else f"`{json.dumps(value)}`"
            assert default in {shown, "required"}, name


@pytest.mark.parametrize(
    ("text", "settings"), [(GUARDS, GuardSettings()), (TOOLS, ToolSettings())], ids=str
)
def test_every_default_of_guards_is_true(text: str, settings: GuardSettings | ToolSettings) -> None:
    for name, default in rows(text).items():
        value = getattr(settings, name)
        shown = "none" if value is None else f"`{json.dumps(value)}`"
        assert default == shown, name


def test_every_default_of_models_is_true() -> None:
    told, settings = rows(MODELS), ModelSettings(kind="onnx")
    assert told.pop("kind") == "required"
    for name, default in told.items():
        value = getattr(settings, name)
        assert default == ("none" if value is None else f"`{json.dumps(value)}`"), name


@pytest.mark.parametrize("name", ServiceSettings.__struct_fields__)
def test_every_default_of_the_service_is_true(name: str) -> None:
    assert rows(SERVICE)[name] == f"`{json.dumps(getattr(ServiceSettings(), name))}`"


@pytest.mark.parametrize("name", MemorySettings.__struct_fields__)
def test_every_default_of_memory_is_true(name: str) -> None:
    assert rows(MEMORY)[name] == f"`{json.dumps(getattr(MemorySettings(), name))}`"


@pytest.mark.parametrize("name", Config.__struct_fields__)
def test_every_plain_default_is_true(name: str) -> None:
    told, value = rows(FILE)[name], getattr(Config(), name)

    if told.startswith("`store`"):
        assert value is None
    elif told.startswith("`"):
        assert json.loads(told.strip("`")) == (list(value) if value == () else value)
    else:
        assert told in {
            "none",
            "on",
            "the policy's",
            "the built-in guards",
            "a day, any approver",
            "a key beside the settings",
        }
        tables = MemorySettings | GuardSettings | PeopleSettings | ApprovalSettings
        assert value is None or isinstance(value, tables)


def test_the_example_can_be_used(tmp_path: Path) -> None:
    guards, memory = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "demur.toml"
    path.write_text(memory, encoding="utf-8")
    assert load_config(path).memory == MemorySettings(block=0.97, lift=True)

    path.write_text(guards, encoding="utf-8")
    assert load_config(path).guards.commands == {"run_job": "script"}
