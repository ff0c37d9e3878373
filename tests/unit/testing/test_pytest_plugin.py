import re
import subprocess
import sys
from pathlib import Path

import pytest

import demur.policy.loader
import demur.store.opening
import demur.testing.assertions  # noqa: F401 - see `loaded`
from demur.enforce.enforcer import Enforcer

pytest_plugins = ["pytester"]

POLICY = """
schema_version: policy.v1
policy_id: desk
policy_version: 1.0.0
defaults: {verdict: ESCALATE, reason_code: NO_MATCH_DEFAULT_ESCALATE}
rules:
  - id: R_DELETE
    stage: HARD_BLOCKS
    if: {action_type: delete}
    then: {verdict: DENY, reason_codes: [DATA_ACCESS_UNINTENDED]}
"""
USUAL = ("-p", "demur.testing.pytest_plugin", "-p", "no:cacheprovider", "--strict-markers")


@pytest.fixture(scope="module")
def loaded() -> None:
    """Load all that the tests use: a run inside this process forgets what it was first to load."""
    Enforcer().check_tool_call("bash", {"command": "rm -rf /srv/data"})


@pytest.fixture
def site(
    loaded: None,  # noqa: ARG001 - it comes first
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> pytest.Pytester:
    """Return a folder for test files, where the plugin alone is loaded, by its module."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def run(site: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    site.makepyfile(source)
    return site.runpytest_inprocess(*USUAL, *options)


def test_a_gate_allows_what_no_guard_objects_to(site: pytest.Pytester) -> None:
    ran = run(
        site,
        """
        from demur.model.finding import Finding
        from demur.testing.assertions import assert_allows, assert_refuses

        def test_it(demur_gate):
            assert_allows(demur_gate.decide({"action": {"type": "anything"}}))
            found = [Finding(code="RCE_RISK", surface="tool_call")]
            assert_refuses(demur_gate.decide({"action": {"type": "x"}}, findings=found), "RCE_RISK")
        """,
    )

    ran.assert_outcomes(passed=1)


def test_each_test_has_a_store_of_its_own_and_reads_it_back_newest_last(
    site: pytest.Pytester,
) -> None:
    ran = run(
        site,
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_it(demur_gate, demur_records, tmp_path, number):
            assert len(demur_records) == 0
            made = [demur_gate.decide({"action": {"type": f"a{n}"}}) for n in range(3)]
            assert list(demur_records) == made
            assert demur_records[-1].action_type == "a2"
            assert demur_records[1:] == made[1:]
            assert repr(demur_records) == "['ALLOW', 'ALLOW', 'ALLOW']"
            assert (tmp_path / "demur.db").is_file()
        """,
    )

    ran.assert_outcomes(passed=2)


def test_an_enforcer_guards_and_its_check_results_are_recorded(site: pytest.Pytester) -> None:
    ran = run(
        site,
        """
        from demur.testing.assertions import assert_allows, assert_refuses

        def test_it(demur_enforcer, demur_records):
            ruling = demur_enforcer.check_tool_call("bash", {"command": "rm -rf /srv/data"})
            assert_refuses(ruling, "UNAPPROVED_DESTRUCTION", refusal_class="WORKFLOW_BLOCK")
            assert_refuses(demur_records[-1], "UNAPPROVED_DESTRUCTION", surface="code_execution")
            assert_allows(demur_enforcer.check_tool_call("bash", {"command": "ls"}))
        """,
    )

    ran.assert_outcomes(passed=1)


def test_the_policy_may_be_text_or_a_path_near_the_test_or_below_the_root(
    site: pytest.Pytester,
) -> None:
    site.makefile(".yaml", desk=POLICY)
    folder = site.mkdir("inner")
    (folder / "near.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "test_inner.py").write_text(
        f"""
import pathlib
import pytest
from demur.testing.assertions import assert_refuses

TEXT = '''{POLICY}'''

@pytest.mark.demur(policy=TEXT)
def test_text(demur_gate):
    assert demur_gate.policy.policy_id == "desk"

@pytest.mark.demur(policy="near.yaml")
def test_beside(demur_gate):
    assert_refuses(demur_gate.decide({{"action": {{"type": "delete"}}}}), "DATA_ACCESS_UNINTENDED")

@pytest.mark.demur(policy=pathlib.Path("desk.yaml"))
def test_below_the_root(demur_gate):
    assert demur_gate.policy.policy_id == "desk"
""",
        encoding="utf-8",
    )

    site.runpytest_inprocess(*USUAL).assert_outcomes(passed=3)


def test_the_ini_file_names_the_policy_of_all_tests(site: pytest.Pytester) -> None:
    site.makefile(".yaml", desk=POLICY)
    site.makeini("[pytest]\ndemur_policy = desk.yaml")
    ran = run(
        site,
        """
        def test_it(demur_gate):
            assert demur_gate.policy.policy_id == "desk"
        """,
    )

    ran.assert_outcomes(passed=1)
    ran.stdout.fnmatch_lines(["demur: *, policy: desk.yaml"])


def test_the_ini_option_works_without_an_ini_file(site: pytest.Pytester) -> None:
    site.makefile(".yaml", desk=POLICY)
    source = """
        def test_it(demur_gate):
            assert demur_gate.policy.policy_id == "desk"
    """

    run(site, source, "-o", "demur_policy=desk.yaml").assert_outcomes(passed=1)


def test_the_nearest_marker_wins_each_setting_by_itself(site: pytest.Pytester) -> None:
    site.makefile(".yaml", desk=POLICY)
    ran = run(
        site,
        """
        import pytest
        from demur.testing.assertions import assert_allows, assert_refuses

        pytestmark = pytest.mark.demur(policy="desk.yaml", mode="advisory")
        DELETE = {"action": {"type": "delete"}}

        def test_module(demur_gate):
            assert_allows(demur_gate.decide(DELETE))

        @pytest.mark.demur(mode="enforce")
        def test_own(demur_gate):
            assert_refuses(demur_gate.decide(DELETE), "DATA_ACCESS_UNINTENDED")
        """,
    )

    ran.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ('policy="nowhere.yaml"', "*nowhere.yaml: cannot read the policy*"),
        ('policy="a: 1\\nb: 2\\n"', "*pytest.mark.demur:1:1: *"),
        ('mode="dry"', "*mode: unknown mode `dry`*"),
        ('polcy="x"', "*pytest.mark.demur: the marker does not take `polcy`*"),
        ('"x"', "*pytest.mark.demur: the marker does not take an argument without a name*"),
    ],
)
def test_an_invalid_setting_is_reported_without_a_traceback(
    site: pytest.Pytester, marker: str, told: str
) -> None:
    ran = run(
        site,
        f"""
        import pytest

        @pytest.mark.demur({marker})
        def test_it(demur_gate):
            pass
        """,
    )

    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines([told])
    ran.stdout.no_fnmatch_line("*Traceback*")


def test_a_test_may_close_its_gate(site: pytest.Pytester) -> None:
    ran = run(
        site,
        """
        def test_it(demur_gate):
            demur_gate.close()
        """,
        "-W",
        "error::ResourceWarning",
    )

    ran.assert_outcomes(passed=1)


def test_a_failure_shows_the_block_and_not_the_inside_of_the_assertion(
    site: pytest.Pytester,
) -> None:
    ran = run(
        site,
        """
        from demur.testing.assertions import assert_refuses

        def test_it(demur_gate):
            assert_refuses(demur_gate.decide({"action": {"type": "x"}}), "RCE_RISK")
        """,
    )

    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(
        [
            "E * AssertionError: expected a refusal with code RCE_RISK",
            "E * but a decision record does not refuse",
            "E * decision *",
        ]
    )
    ran.stdout.no_fnmatch_line("*seen.outcome*")


REPORTED = """
import pytest
from demur.model.finding import Finding

@pytest.mark.parametrize("number", [1, 2])
def test_refused(demur_gate, number):
    found = [Finding(code="RCE_RISK", surface="tool_call")]
    demur_gate.decide({"action": {"type": "x"}}, findings=found)
    demur_gate.decide({"action": {"type": "y"}})

def test_rate(demur_gate, record_property):
    record_property("other", "not ours")
    demur_gate.decide(
        {"action": {"type": "x"}}, findings=[Finding(code="RATE_LIMIT", surface="rate")]
    )

def test_undecided(demur_gate):
    pass
"""
COUNTS = [
    "*= demur =*",
    "5 decisions in 3 tests, 3 refused",
    "     2  RCE_RISK",
    "     1  RATE_LIMIT",
]


def test_codes_are_counted_at_the_end_with_the_report_option(site: pytest.Pytester) -> None:
    ran = run(site, REPORTED, "--demur-report")

    ran.assert_outcomes(passed=4)
    ran.stdout.fnmatch_lines(COUNTS)


def test_one_is_called_one(site: pytest.Pytester) -> None:
    source = """
        def test_it(demur_gate):
            demur_gate.decide({"action": {"type": "x"}})
    """

    run(site, source, "--demur-report").stdout.fnmatch_lines(["1 decision in 1 test, 0 refused"])


def test_codes_are_not_counted_without_the_report_option(site: pytest.Pytester) -> None:
    run(site, REPORTED).stdout.no_fnmatch_line("*decisions in*")


def test_codes_of_other_processes_are_counted_too(site: pytest.Pytester) -> None:
    site.makepyfile(REPORTED)
    ran = site.runpytest_subprocess(*USUAL, "-p", "xdist", "-n", "2", "--demur-report")

    ran.assert_outcomes(passed=4)
    ran.stdout.fnmatch_lines(COUNTS)


def test_the_header_and_the_marker_are_shown(site: pytest.Pytester) -> None:
    ran = run(site, "def test_it(): pass")
    ran.stdout.fnmatch_lines(["demur: *, policy: allows what no guard objects to"])

    ran = site.runpytest_inprocess(*USUAL, "--markers")
    ran.stdout.fnmatch_lines(["@pytest.mark.demur(policy, mode): *"])


def test_the_tests_on_the_page_pass(site: pytest.Pytester) -> None:
    page = Path(__file__).parents[3] / "docs/how-to/test-refusals.md"
    # Not `python`: this one is for pytest to run, not to be run by itself.
    [source] = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    site.path.joinpath("test_page.py").write_text(source, encoding="utf-8")

    site.runpytest_inprocess(*USUAL).assert_outcomes(passed=2)


def test_a_run_that_asks_for_no_fixture_loads_next_to_nothing_of_demur() -> None:
    code = (
        "import sys, demur.testing.pytest_plugin; "
        "print(*sorted(n for n in sys.modules if n.partition('.')[0] in {'demur', 'msgspec'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.split() == [
        *("demur", "demur.errors", "demur.source", "demur.source.lazy"),
        *("demur.testing", "demur.testing.pytest_plugin"),
        "demur.version",
    ]
