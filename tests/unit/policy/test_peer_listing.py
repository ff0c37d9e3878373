import json

import pytest

from demur.errors import RegistryError
from demur.policy.lumyn_codes import read_code_list


def test_each_code_has_its_description() -> None:
    rows = [{"code": "A_B", "description": " An A. "}, {"code": "C_D"}]
    text = json.dumps({"schema_version": "reason_codes.v1", "codes": rows})

    assert read_code_list("codes.json", text) == {"A_B": "An A.", "C_D": ""}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "codes.json:1:2: not JSON: "),
        ("[" * 100_000, "codes.json: not a list of codes"),
        ("9" * 5000, "codes.json: not a list of codes"),
        ("[]", "codes.json: Lumyn's codes are an object with a list called `codes`"),
        ('{"codes": {}}', "codes.json: Lumyn's codes are an object"),
        ('{"codes": [{"code": "A_B"}, 5]}', "codes.json: codes[1]: a code has a name"),
        ('{"codes": [{"code": 5}]}', "codes.json: codes[0]: a code has a name"),
        ('{"codes": [{"code": "A", "description": 5}]}', "codes.json: codes[0]: a code has a name"),
    ],
)
def test_a_file_that_is_no_list_of_codes_is_refused(text: str, problem: str) -> None:
    with pytest.raises(RegistryError) as caught:
        read_code_list("codes.json", text)

    assert str(caught.value).startswith(problem)
