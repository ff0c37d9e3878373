"""The generic phrases of guards: which wordings parse, and which log lines they leave alone.

`tools/phrase_hits.py` holds phrases against the messages of installed packages. A phrase that
says only that something was found (`pii detected`) is left out: guards mask such values and go
on. So is one that firewalls use for something else (`injection attempt`).
"""

import sysconfig
from pathlib import Path

import pytest
from phrase_hits import find_hits, find_messages, list_files

from demur.codes.document import read_document
from demur.codes.refusal_line import find_refusals, parse_refusal
from demur.codes.registry import Registry

CORE = Registry.load()
FROZEN = Registry.from_document(
    read_document(Path(__file__).parents[3] / "spec/registry/1.1.0.json")
)
NEW = {phrase: code for phrase, code in CORE.phrases.items() if phrase not in FROZEN.phrases}

WORDINGS = [
    ("Loop detected: read_file was called 6 times with the same arguments", "LOOP_DETECTED"),
    ("infinite loop detected, stopping the agent", "LOOP_DETECTED"),
    ("Agent is stuck in a loop, aborting run", "LOOP_DETECTED"),
    ("Repeated tool call detected: search", "LOOP_DETECTED"),
    ("Prompt injection detected in tool output", "CONTEXT_INJECTION"),
    ("possible prompt injection in retrieved document 4", "CONTEXT_INJECTION"),
    ("Prompt injection attempt blocked (score 0.97)", "CONTEXT_INJECTION"),
    ("Context injection detected at offset 120", "CONTEXT_INJECTION"),
    ("Integrity check failed for pinned system prompt", "INTEGRITY_FAILURE"),
    ("context integrity violation: pinned rule missing after compaction", "INTEGRITY_FAILURE"),
    ("Integrity verification failed: digest mismatch", "INTEGRITY_FAILURE"),
    ("Policy violation: refund above limit", "POLICY_VIOLATION"),
    ("Request denied by policy support-desk", "POLICY_VIOLATION"),
    ("This action is not allowed by policy", "POLICY_VIOLATION"),
    ("Rejected by policy engine", "POLICY_VIOLATION"),
    ("the request violates policy R7", "POLICY_VIOLATION"),
    ("Guardrail triggered: outbound email", "POLICY_VIOLATION"),
    ("guardrail violation in step 3", "POLICY_VIOLATION"),
    ("blocked by the guardrail", "POLICY_VIOLATION"),
    ("Rate limited, retry in 20s", "RATE_LIMIT"),
    ("You are being rate-limited", "RATE_LIMIT"),
    ("rate limit hit for key ab12", "RATE_LIMIT"),
    ("Rate limit reached, backing off", "RATE_LIMIT"),
    ("request was throttled. Expected available in 30 seconds.", "RATE_LIMIT"),
    ("Tool not verified: weather", "UNVERIFIED_TOOL"),
    ("untrusted tool `weather` refused", "UNVERIFIED_TOOL"),
    ("tool signature mismatch for weather@2", "UNVERIFIED_TOOL"),
    ("Tool call denied: delete_user", "TOOL_NOT_ALLOWED"),
    ("tool `shell` not permitted for this agent", "TOOL_NOT_ALLOWED"),
    ("Disallowed tool: shell", "TOOL_NOT_ALLOWED"),
    ("Remote code execution blocked", "RCE_RISK"),
    ("unsafe code execution prevented: curl | sh", "RCE_RISK"),
    ("remote code execution attempt in argument `cmd`", "RCE_RISK"),
    ("Risky import: subprocess", "RISKY_IMPORT"),
    ("Forbidden import 'os' in generated code", "RISKY_IMPORT"),
    ("dangerous import of ctypes in skill", "RISKY_IMPORT"),
    ("Jailbreak detected", "JAILBREAK_WRAPPER"),
    ("jailbreak attempt refused", "JAILBREAK_WRAPPER"),
    ("Privilege escalation blocked: sudo su", "PRIVILEGE_ESCALATION"),
    ("data exfiltration attempt to 203.0.113.7", "EXFILTRATION_RISK"),
    ("Approval required for refund of 900 EUR", "APPROVAL_REQUIRED"),
    ("Budget exceeded: 2.00 USD of 1.50", "BUDGET_EXCEEDED"),
    ("Destructive action blocked: drop table users", "DESTRUCTIVE_ACTION"),
    ("Egress blocked: host evil.example not in allowlist", "EGRESS_DENIED"),
]
LEFT_OUT = [
    "Input rejected: injection attempt detected",
    "Secret detected in output, redacting",
    "API key detected in message",
    "PII detected: email, phone",
    "Response contains PII",
]
BENIGN = """
2026-11-16 09:12:01 INFO  loop started, polling every 5 s
INFO asyncio: Using selector: EpollSelector
WARN event loop is closed, reconnecting
INFO scheduler: entering main loop
DEBUG requests.adapters: Retrying (Retry(total=2)) after connection broken
INFO limiter: rate is limited only by the network
INFO limiter configured: 100 requests per minute
INFO nginx: limiting requests, excess: 0.2 by zone "api"
INFO policy loaded: 14 rules, default ESCALATE
INFO policy violations: 0
INFO policy check passed
WARN policy file changed on disk, reloading
INFO retention policy applied, 12 rows deleted
INFO guardrail passed in 12 ms
INFO guardrails enabled: input, output
INFO no prompt injection detected
INFO scan of prompt finished, injection score 0.02
INFO integrity check passed for demur.db
PRAGMA integrity_check: ok
INFO checksum verified, integrity ok
ERROR sqlite3.IntegrityError: UNIQUE constraint failed: users.email
INFO imports sorted in 3 files
WARN import of module yaml took 1.2 s
INFO tool call finished: search (230 ms)
INFO tool verified: weather@2
INFO tools loaded: 12, pinned: 12
INFO approval granted by user:erin
INFO approval required: false
INFO approvals pending: none
INFO budget: 0.42 of 1.50 USD used
INFO token budget set to 8000
INFO egress proxy listening on :3128
INFO code execution finished with status 0
INFO remote execution host added: build-7
INFO privileges dropped to user nobody
INFO jailbreak suite loaded: 120 rows
INFO obfuscation pass skipped
cp: error writing: Disk quota exceeded
mount: wrong fs type, bad option, bad superblock on /dev/loop0
kernel: loop0: detected capacity change from 0 to 8
bash: /usr/local/bin/run: Permission denied
sshd: Failed password for root from 203.0.113.9
""".strip().splitlines()

# Packages with many messages; those that are not installed are passed over.
PACKAGES = ("httpcore", "httpx", "jsonschema", "psycopg", "starlette", "uvicorn")


@pytest.mark.parametrize(("text", "code"), WORDINGS)
def test_an_ordinary_wording_of_a_guard_parses(text: str, code: str) -> None:
    parsed = parse_refusal(text, registry=CORE)

    assert parsed is not None
    assert parsed == (code, text)
    assert parse_refusal(text, registry=FROZEN) is None


@pytest.mark.parametrize("text", LEFT_OUT)
def test_a_wording_that_does_not_say_that_something_was_refused_stays_unread(text: str) -> None:
    assert parse_refusal(text, registry=CORE) is None


@pytest.mark.parametrize("line", BENIGN)
def test_an_ordinary_log_line_is_no_refusal(line: str) -> None:
    assert find_refusals(line, registry=CORE) == []


def test_no_new_phrase_hits_a_message_of_an_installed_package() -> None:
    folder = Path(sysconfig.get_path("purelib"))
    files = [
        file
        for name in PACKAGES
        if (folder / name).is_dir()
        for file in list_files([str(folder / name)])
    ]
    assert files

    assert list(find_hits(files, NEW)) == []


def test_the_tool_reads_what_a_source_logs_warns_prints_or_raises(tmp_path: Path) -> None:
    source = (
        '"""A loop detected in the docs."""\n'
        'log.info("Loop  detected in %s", name)\n'
        "raise ValueError(f'policy violation of {name}: ' + more)\n"
        'warnings.warn("rate limited: {}".format(rate))\n'
        'TABLE = {"risky import": 1}\n'
    )
    file = tmp_path / "package" / "module.py"
    file.parent.mkdir()
    file.write_text(source)

    assert sorted(line for line, _ in find_messages(source.encode())) == [2, 3, 4]
    assert {(hit.phrase, hit.code) for hit in find_hits(list_files([str(tmp_path)]), NEW)} == {
        ("loop detected", "LOOP_DETECTED"),
        ("policy violation", "POLICY_VIOLATION"),
        ("rate limited", "RATE_LIMIT"),
    }
    assert list(find_messages(b"def broken(:")) == []
