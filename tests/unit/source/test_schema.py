import json
from pathlib import Path

import pytest

from demur.source.schema import generated_files

ROOT = Path(__file__).parents[3]
FILES = dict(generated_files())


@pytest.mark.parametrize("path", FILES)
def test_a_schema_that_is_data_has_its_copy_in_the_specification(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == FILES[path]
    assert path == f"spec/schemas/{json.loads(FILES[path])['$id'].rpartition(':')[2]}.schema.json"
