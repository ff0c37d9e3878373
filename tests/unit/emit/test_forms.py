import inspect
from pathlib import Path

import pytest

from demur.emit import forms
from demur.emit.forms import FORMS

FOLDER = Path(forms.__file__).parent
HELPERS = {"__init__", "forms", "moments"}


def test_every_module_of_the_package_is_in_the_table() -> None:
    written = {inspect.getmodule(form.write) for form in FORMS.values()}
    names = {module.__name__.rpartition(".")[2] for module in written if module}

    assert names == {path.stem for path in FOLDER.glob("*.py")} - HELPERS


@pytest.mark.parametrize("name", FORMS)
def test_a_form_takes_the_arguments_that_it_names(name: str) -> None:
    form = FORMS[name]
    parameters = dict(inspect.signature(form.write).parameters)
    del parameters["refusal"]
    needed = {key for key, one in parameters.items() if one.default is inspect.Parameter.empty}

    assert set(form.needs) == needed
    assert set(form.needs) | set(form.takes) == set(parameters)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_summed_up_in_one_line(name: str) -> None:
    assert FORMS[name].summary
    assert "\n" not in FORMS[name].summary
