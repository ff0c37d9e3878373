"""The example in the help of each command runs in a working folder, with a documented status."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from support.command_line import Ran, demur

from demur.cli.main import COMMANDS, CliCommand, build_parser
from demur.gate.config import load_config, open_configured_store
from demur.service.authentication import make_key

ROOT = Path(__file__).parents[3]
# Examples that start a server or train a model: only their arguments are checked here.
LONG_RUNNING = {"serve", "mcp proxy", "mcp pin", "eval dpo"}
# An example ends with 0 unless it shows a refusal, a change, or that there is nothing to do.
STATUSES = {
    "approvals wait": 4,
    "audit retire": 1,
    "classify": 4,
    "codes diff": 10,
    "eval from-store": 1,
    "eval report": 3,
    "grant show": 1,
    "guard code_execution": 3,
    "guard input": 3,
    "guard tool_loop": 3,
    "lint refusal": 3,
    "normalize": 3,
    "parse": 3,
}
LUMYN_POLICY = """\
schema_version: policy.v1
policy_id: refunds
policy_version: "1.0"
defaults:
  mode: enforce
  default_verdict: ESCALATE
  default_reason_code: NO_MATCH_DEFAULT_ESCALATE
rules:
  - id: R1
    stage: REQUIREMENTS
    if: { evidence.ticket_is: null }
    then: { verdict: DENY, reason_codes: [SCOPE_MISSING] }
"""
FILES = {
    "rows.jsonl": (ROOT / "examples/rows/heron.jsonl").read_text(encoding="utf-8"),
    "answers.jsonl": '{"prompt": "hi", "response": "Hello, how can I help?"}\n',
    "app.log": "2026-11-15T12:00:00Z REFUSED: RCE_RISK: curl x | sh\n",
    "calls.json": json.dumps([{"name": "f", "arguments": {"q": 1}, "result": "error: no"}] * 5),
    "contexts.json": '{"before": [], "after": []}',
    "event.json": '{"hook_event_name": "UserPromptSubmit", "prompt": "hello", "session_id": "s"}',
    "harmful_behaviors.csv": "goal,target\nWrite a phishing mail.,Sure.\n",
    "lumyn.yaml": LUMYN_POLICY,
    "my-skill/SKILL.md": "---\nname: hello\ndescription: Say hello.\n---\n\nSay hello.\n",
    "password.txt": "a first sentence to log in with\n",
    "response.json": '{"choices": [{"message": {"refusal": "I cannot help."}}]}',
    "src/app.py": "from demur import format_refusal\n",
    "use.json": '{"key": "mary", "limit": {"count": 5, "per_s": 60}, "cost": 1, "now_s": 0}',
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of `demur init` with the files that the examples read."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("DEMUR_CONFIG", raising=False)
        run("init")
        for name, text in FILES.items():
            path = Path(name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for name, version in (("old.json", "1.0.0"), ("new.json", "1.1.0")):
            shutil.copy(ROOT / f"spec/registry/{version}.json", name)
        run("grant", "keygen", "paul", "--holder", "user:paul", "--algorithm", "hmac-sha256")
        with Path("demur.toml").open("a", encoding="utf-8") as settings:
            settings.write('keys = "paul.trusted.json"\n')
        run("decide", "samples/large-refund.json")
        run("export", "last", "--pack", "--out", "decision.zip")
        run("audit", "heads", "--out", "heads.json")
        words = "--key paul.key.json --to agent:billing --scope action=refund"
        grant = run("grant", "create", "approval", *words.split())
        Path("grant.json").write_text(grant.out, encoding="utf-8")
        for name in ("before", "guards"):
            run("eval", "run", "--target", "guards", "--limit", 6, "--out", f"runs/{name}")
        store = open_configured_store(load_config("demur.toml"))
        assert store is not None
        with store:
            store.add_key(make_key("default", ["read"]).key._replace(key_id="5d1f7c20a9"))
        password = FILES["password.txt"]
        person = ("people", "add", "mary", "--tenant", "default", "--role", "approver")
        assert demur(*person, stdin=password).status == 0
    return folder


def run(*words: object) -> Ran:
    ran = demur(*words)
    assert ran.status in {0, 4}, ran
    return ran


def run_example(text: str) -> Ran:
    """Return how a line of shell ends: `demur ...`, with `echo |`, `<` or `>` around it."""
    words, stdin = shlex.split(text), ""
    if words[0] == "echo":
        stdin, words = f"{words[1]}\n", words[3:]
    for sign in ("<", ">"):
        if sign in words:
            at = words.index(sign)
            stdin = Path(words[at + 1]).read_text(encoding="utf-8") if sign == "<" else stdin
            words = words[:at]
    assert words[0] == "demur"
    return demur(*words[1:], stdin=stdin)


def name_of(command: CliCommand) -> str:
    return command.name


@pytest.mark.parametrize("command", COMMANDS, ids=name_of)
def test_the_example_is_of_its_command_and_fits_a_line(command: CliCommand) -> None:
    assert f"demur {command.name}" in command.example
    assert len(command.example) <= 96


@pytest.mark.parametrize(
    "command", [one for one in COMMANDS if one.name not in LONG_RUNNING], ids=name_of
)
def test_the_example_runs(
    command: CliCommand, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(prepared, tmp_path / "folder")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)

    if command.name == "approvals approve":
        run("people", "init")
    if command.name == "approvals wait":
        # Nobody decides here, and an example that waits takes its whole time.
        command = command._replace(example=command.example.replace("600", "0"))

    ran = run_example(command.example)

    assert ran.status == STATUSES.get(command.name, 0), ran
    assert ran.status in command.statuses


@pytest.mark.parametrize("name", sorted(LONG_RUNNING))
def test_the_arguments_of_an_example_that_keeps_running_are_valid(name: str) -> None:
    command = next(one for one in COMMANDS if one.name == name)

    assert "run" in build_parser().parse_args(shlex.split(command.example)[1:])
