import pytest
from installed_guards import GOOD, Install

from demur.guards.checking import check
from demur.guards.installed import GuardError, find_installed, installed_guards


def test_without_packages_there_are_none(install: Install) -> None:
    assert callable(install)
    assert find_installed() == ()
    assert installed_guards("input") == ()


def test_an_installed_guard_looks_with_the_built_in_one(install: Install) -> None:
    install(GOOD)
    [one] = installed_guards("input")

    assert (one.name, one.package, one.config) == ("acme", "acme-guards", ("swordfish",))
    assert installed_guards("output") == ()
    [found] = check("input", "the word is swordfish")
    assert found.code == "TERM_BLOCKLISTED"
    assert found.span is not None
    assert (found.span.start, found.span.end) == (12, 21)


def test_an_object_is_as_good_as_a_module(install: Install) -> None:
    head, _, body = GOOD.partition("\n\n")
    body = body.replace("\n", "\n    ").replace("check(event", "check(self, event")
    body = body.replace("surface=SURFACE", "surface=self.SURFACE")
    install(f"{head}\n\nclass Guard:\n    {body}\n\nGUARD = Guard()", "acme = acme_guard:GUARD")

    assert [found.code for found in check("input", "swordfish")] == ["TERM_BLOCKLISTED"]


def test_each_guard_is_loaded_once(install: Install) -> None:
    install(GOOD)

    assert find_installed() is find_installed()


@pytest.mark.parametrize(
    ("code", "points", "problems"),
    [
        ("raise RuntimeError('no key')", "acme = acme_guard", ["RuntimeError: no key"]),
        (GOOD, "acme = acme_guard:nothing", ["AttributeError"]),
        (GOOD, "acme = acme_nothing", ["ModuleNotFoundError"]),
        (
            GOOD.replace("TERM_BLOCKLISTED", "MADE_UP"),
            "acme = acme_guard",
            ["`MADE_UP` in `CODES`"],
        ),
        ("CODES = ()", "acme = acme_guard", ["`SURFACE`", "`CODES`", "`check"]),
    ],
)
def test_what_is_wrong_is_said_with_the_packages_name(
    install: Install, code: str, points: str, problems: list[str]
) -> None:
    install(code, points)
    with pytest.raises(GuardError) as caught:
        installed_guards("output")

    assert len(caught.value.problems) == len(problems)
    for problem, words in zip(caught.value.problems, problems, strict=True):
        assert problem.where == f"acme-guards: entry point `{points}`"
        assert words in problem.problem
        assert problem.help is not None
    with pytest.raises(GuardError):
        check("output", "x")
    assert find_installed()[0].guard is None
