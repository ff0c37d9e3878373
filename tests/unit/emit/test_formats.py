import inspect
from pathlib import Path

import pytest

from demur.emit import formats
from demur.emit.formats import EMIT_FORMATS

FOLDER = Path(formats.__file__).parent
HELPERS = {"__init__", "formats"}


def test_every_module_of_the_package_is_in_the_table() -> None:
    written = {inspect.getmodule(form.write) for form in EMIT_FORMATS.values()}
    names = {module.__name__.rpartition(".")[2] for module in written if module}

    assert names == {path.stem for path in FOLDER.glob("*.py")} - HELPERS


@pytest.mark.parametrize("name", EMIT_FORMATS)
def test_a_form_takes_the_arguments_that_it_names(name: str) -> None:
    form = EMIT_FORMATS[name]
    parameters = dict(inspect.signature(form.write).parameters)
    del parameters["refusal"]
    needed = {key for key, one in parameters.items() if one.default is inspect.Parameter.empty}

    assert set(form.required_arguments) == needed
    assert set(form.required_arguments) | set(form.optional_arguments) == set(parameters)


@pytest.mark.parametrize("name", EMIT_FORMATS)
def test_a_form_is_summed_up_in_one_line(name: str) -> None:
    assert EMIT_FORMATS[name].summary
    assert "\n" not in EMIT_FORMATS[name].summary
