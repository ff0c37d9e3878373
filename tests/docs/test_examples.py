"""Every example runs as it stands, and prints what it is there to show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.example_programs import EXAMPLES, copy_program

from demur.codes import default_registry
from demur.policy import lint_policy, load_policy

SHOWS = {
    "approval.py": "900 USD, risk 0.1: NEED_CONTEXT -> ALLOW_EXECUTE",
    "decide.py": "DENY     FAILURE_MEMORY_SIMILAR_BLOCK",
    "guarded.py": "clean_up  ALLOW    DESTRUCTIVE_ACTION",
    "mcp_proxy.py": "UNVERIFIED_TOOL",
    "shell_guard.py": "refused: {'UNAPPROVED_DESTRUCTION': 1, 'RCE_RISK': 1}",
    "web.py": "on record: user:mary ESCALATE ['CONTEXT_INJECTION']",
}
# Those that need a framework, and run where it is.
WITH_FRAMEWORKS = {
    "anthropic_client.py": "record: OUTPUT_FORBIDDEN",
    "claude_agent.py": "REFUND_OVER_ESCALATION_LIMIT",
    "deep_agent.py": "refund   ESCALATE REFUND_OVER_ESCALATION_LIMIT",
    "fastmcp_server.py": "readme: an error of the protocol, CONTEXT_INJECTION",
    "inspect_scorer.py": "over_refusal_rate = 1.00",
    "langchain_agent.py": "paused: REFUND_OVER_ESCALATION_LIMIT",
    "langchain_chain.py": "DENY     CONTENT_PRIVACY, OUTPUT_FORBIDDEN",
    "mcp_server.py": "wipe: an error of the protocol, ACTION_HIGH_RISK",
    "openai_agents.py": "told the model: REFUND_OVER_ESCALATION_LIMIT",
    "openai_client.py": "record: OUTPUT_FORBIDDEN",
    "pydantic_ai_agent.py": "waits: REFUND_OVER_ESCALATION_LIMIT",
}
# Those of the environment that CrewAI, Google ADK and LlamaIndex share.
IN_FRAMEWORKS = {
    "crewai_crew.py": "the model read: REFUND_OVER_ESCALATION_LIMIT",
    "google_adk_agent.py": "waits: REFUND_OVER_ESCALATION_LIMIT",
    "llamaindex_agent.py": "waits: REFUND_OVER_ESCALATION_LIMIT",
}
WITH_LITELLM = {
    "litellm_client.py": "cut off: OUTPUT_FORBIDDEN",
    "litellm_guardrail.py": "cut off: OUTPUT_FORBIDDEN",
}
# Whole programs, each in a folder with its policy and its tests.
PROGRAMS = ("coding_agent", "rag_assistant", "support_agent")


def test_no_example_is_left_out() -> None:
    known = {**SHOWS, **WITH_FRAMEWORKS, **IN_FRAMEWORKS, **WITH_LITELLM}
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(known)
    assert sorted(path.parent.name for path in EXAMPLES.glob("*/test_*.py")) == list(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_passes_its_own_tests(name: str, tmp_path: Path) -> None:
    copy_program(name, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    options = {**os.environ, "PYTEST_ADDOPTS": "", "COVERAGE_PROCESS_START": ""}
    ran = subprocess.run(
        command, cwd=tmp_path, env=options, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_policy_of_a_program_has_no_diagnostics(name: str) -> None:
    policy = load_policy(EXAMPLES / name / "policy.yaml")

    assert list(lint_policy(policy, default_registry())) == []


@pytest.mark.parametrize("name", SHOWS)
def test_example(name: str) -> None:
    _shows(name, SHOWS[name])


@pytest.mark.adapters
@pytest.mark.parametrize("name", WITH_FRAMEWORKS)
def test_example_with_a_framework(name: str) -> None:
    _shows(name, WITH_FRAMEWORKS[name])


@pytest.mark.frameworks
@pytest.mark.parametrize("name", IN_FRAMEWORKS)
def test_example_in_frameworks(name: str) -> None:
    _shows(name, IN_FRAMEWORKS[name])


@pytest.mark.litellm
@pytest.mark.parametrize("name", WITH_LITELLM)
def test_example_with_litellm(name: str) -> None:
    _shows(name, WITH_LITELLM[name])


def _shows(name: str, text: str) -> None:
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True
    )

    assert text in ran.stdout
    assert ran.stderr == ""
