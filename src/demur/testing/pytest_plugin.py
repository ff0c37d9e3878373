"""The pytest plugin: a separate gate for each test, and a count of the codes it decided by.

pytest loads the plugin in every run if demur is installed. So the plugin imports the rest of demur
only when a test uses a fixture.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import pytest

from demur.errors import DemurError, InputError
from demur.version import __version__

if TYPE_CHECKING:
    from demur.enforce.enforcer import Enforcer
    from demur.gate.gate import Gate
    from demur.model.record import DecisionRecord
    from demur.policy.policy import Policy

__all__ = ["GateRecords", "demur_enforcer", "demur_gate", "demur_records"]

_MARKER = "demur"
_INI = "demur_policy"
_REPORT = "--demur-report"
_SETTINGS = ("policy", "mode")
_ALLOW_POLICY = """\
schema_version: policy.v1
policy_id: pytest
policy_version: 1.0.0
description: What no guard objects to may be done.
defaults: {verdict: ALLOW}
rules: []
"""


class GateRecords(Sequence["DecisionRecord"]):
    """The decisions that a test's gate has stored so far, newest last; read on each access."""

    def __init__(self, gate: "Gate") -> None:
        self._gate = gate

    def _read_records(self) -> "list[DecisionRecord]":
        store = self._gate.store
        assert store is not None
        return list(store.find_records())

    @overload
    def __getitem__(self, index: int) -> "DecisionRecord": ...
    @overload
    def __getitem__(self, index: slice) -> "Sequence[DecisionRecord]": ...
    def __getitem__(self, index: int | slice) -> "DecisionRecord | Sequence[DecisionRecord]":
        return self._read_records()[index]

    def __len__(self) -> int:
        return len(self._read_records())

    def __iter__(self) -> "Iterator[DecisionRecord]":
        return iter(self._read_records())

    def __repr__(self) -> str:
        return repr([f"{one.verdict} {', '.join(one.reason_codes)}".strip() for one in self])


# -- fixtures --------------------------------------------------------------------------------


@pytest.fixture
def demur_gate(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[Gate]":
    """Return a gate with a store under `tmp_path`.

    Its policy is that of `@pytest.mark.demur(policy=..., mode=...)`, a path or YAML text, or
    else of the ini option `demur_policy`, or else one that allows everything but findings.
    """
    made: list[DecisionRecord] = []
    with _open_or_fail(request, tmp_path / "demur.db", made) as gate:
        yield gate
    if request.config.getoption(_REPORT) and made:
        # Pass the counts through the test's report, because tests may run in other processes.
        request.node.user_properties.append((_MARKER, _encode_counts(made)))


@pytest.fixture
def demur_enforcer(demur_gate: "Gate") -> "Enforcer":
    """Return an enforcer over the test's gate, with the built-in and installed guards."""
    enforcer: Enforcer = import_module("demur.enforce.enforcer").Enforcer(demur_gate)
    return enforcer


@pytest.fixture
def demur_records(demur_gate: "Gate") -> GateRecords:
    """Return the decisions of the test's gate from its store, newest last."""
    return GateRecords(demur_gate)


def _open_or_fail(
    request: pytest.FixtureRequest, path: Path, made: "list[DecisionRecord]"
) -> "Gate":
    try:
        return _open_gate(request, path, made)
    except DemurError as error:
        problem = str(error)
    # Outside the handler, so that pytest does not report the handled error as well.
    pytest.fail(problem, pytrace=False)


def _open_gate(request: pytest.FixtureRequest, path: Path, made: "list[DecisionRecord]") -> "Gate":
    settings = _read_markers(request.node)
    policy = _load_test_policy(request, settings.get("policy"))
    store = import_module("demur.store.opening").open_store(path, durability="normal")
    try:
        gate: Gate = import_module("demur.gate.gate").Gate(
            policy, store, mode=settings.get("mode"), sinks=[made.append]
        )
    except DemurError:
        store.close()
        raise
    return gate


def _read_markers(node: pytest.Item) -> dict[str, Any]:
    """Return the settings of the markers of a test, its class and its module; the nearest wins."""
    settings: dict[str, Any] = {}
    for marker in node.iter_markers(_MARKER):
        unknown = [name for name in marker.kwargs if name not in _SETTINGS]
        if unknown or marker.args:
            named = f"`{unknown[0]}`" if unknown else "an argument without a name"
            raise InputError(
                f"the marker does not take {named}",
                where=f"pytest.mark.{_MARKER}",
                help=f"only {' and '.join(_SETTINGS)}",
            )
        settings = {**marker.kwargs, **settings}
    return settings


def _load_test_policy(request: pytest.FixtureRequest, given: str | Path | None) -> "Policy":
    config, loader = request.config, import_module("demur.policy.loader")
    policy: Policy
    if given is None and config.getini(_INI):
        policy = loader.load_policy(_ini_dir(config) / config.getini(_INI))
    elif given is None or "\n" in str(given):
        policy = loader.parse_policy(given or _ALLOW_POLICY, f"pytest.mark.{_MARKER}")
    else:
        near_test = request.path.parent / given
        policy = loader.load_policy(near_test if near_test.exists() else _ini_dir(config) / given)
    return policy


def _ini_dir(config: pytest.Config) -> Path:
    return config.rootpath if config.inipath is None else config.inipath.parent


# -- hooks -----------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the ini option."""
    text = "at the end, count the reason codes that gates of tests decided by"
    parser.getgroup(_MARKER).addoption(_REPORT, action="store_true", help=text)
    parser.addini(_INI, "the policy of `demur_gate`, relative to the ini file", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, with `--demur-report`, the tally."""
    text = f"{_MARKER}(policy, mode): what the gate of `demur_gate` decides by"
    config.addinivalue_line("markers", text)
    if config.getoption(_REPORT):
        config.pluginmanager.register(_CodeTally(), "demur-tally")


def pytest_report_header(config: pytest.Config) -> str:
    """Return the header line about demur."""
    policy = config.getini(_INI) or "allows what no guard objects to"
    return f"demur: {__version__}, policy: {policy}"


def _encode_counts(made: "Sequence[DecisionRecord]") -> str:
    codes = Counter(str(code) for record in made for code in record.reason_codes)
    stopped = sum(not record.may_execute for record in made)
    return json.dumps({"decisions": len(made), "refused": stopped, "codes": codes})


class _CodeTally:
    """Adds up the counts of all tests, from all processes."""

    def __init__(self) -> None:
        self.tests = 0
        self.decided: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the counts of a finished test."""
        if report.when != "teardown":
            return
        for name, value in report.user_properties:
            if name == _MARKER:
                counted = json.loads(str(value))
                self.tests += 1
                self.codes.update(counted.pop("codes"))
                self.decided.update(counted)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the codes, the most frequent first."""
        write = terminalreporter.write_line
        terminalreporter.section("demur")
        decisions = _count(self.decided["decisions"], "decision")
        write(f"{decisions} in {_count(self.tests, 'test')}, {self.decided['refused']} refused")
        for code, count in sorted(self.codes.items(), key=lambda item: (-item[1], item[0])):
            write(f"{count:>6}  {code}")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
