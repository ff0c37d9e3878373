"""The page of settings is complete, and its defaults and its example are true."""

import json
import re
from pathlib import Path

import pytest

from demur.gate.config import Config, load_config
from demur.gate.guard_settings import GuardSettings, ToolSettings
from demur.memory.recall import MemorySettings
from demur.service.settings import ServiceSettings

PAGE = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text(encoding="utf-8")
FILE, REST = PAGE.split("### `[memory]`")
MEMORY, REST = REST.split("### `[guards]`")
GUARDS, REST = REST.split("### `[guards.tools.NAME]`")
TOOLS, SERVICE = REST.split("### `[service]`")


def rows(text: str) -> dict[str, str]:
    """Return the default that the page names for each setting."""
    found = re.findall(r"^\| `(\w+)` \| (.+?) \|", text.partition("\n## Env")[0], re.MULTILINE)
    return dict(found)


def test_every_setting_is_on_the_page_and_no_other() -> None:
    assert tuple(rows(FILE)) == Config.__struct_fields__
    assert tuple(rows(MEMORY)) == MemorySettings.__struct_fields__
    assert tuple(rows(GUARDS)) == GuardSettings.__struct_fields__
    assert tuple(rows(TOOLS)) == ToolSettings.__struct_fields__
    assert tuple(rows(SERVICE)) == ServiceSettings.__struct_fields__


@pytest.mark.parametrize(
    ("text", "settings"), [(GUARDS, GuardSettings()), (TOOLS, ToolSettings())], ids=str
)
def test_every_default_of_guards_is_true(text: str, settings: GuardSettings | ToolSettings) -> None:
    for name, default in rows(text).items():
        value = getattr(settings, name)
        shown = "none" if value is None else f"`{json.dumps(value)}`"
        assert default == shown, name


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
        assert told in {"none", "on", "the policy's", "the built-in guards"}
        assert value is None or isinstance(value, MemorySettings | GuardSettings)


def test_the_example_can_be_used(tmp_path: Path) -> None:
    guards, memory = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "demur.toml"
    path.write_text(memory, encoding="utf-8")
    assert load_config(path).memory == MemorySettings(block=0.97, lift=True)

    path.write_text(guards, encoding="utf-8")
    assert load_config(path).guards.commands == {"run_job": "script"}
