"""Processes that use one grant at once, and are killed: it is used exactly as often as it says."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from faults.grant_user import KEY, REQUEST
from faults.writer import POLICY

from demur.gate.gate import Gate
from demur.grants import KeyRing, sign_grant
from demur.model.grant import Grant
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.verify import verify_chain

PROGRAM = Path(__file__).with_name("grant_user.py")
PROCESSES = 4


def give(uses: int, number: int) -> Grant:
    now = datetime.now(UTC)  # noqa: TID251 - the processes have a clock of their own
    return sign_grant(
        KEY,
        grant_id=f"g{number}",
        kind="approval",
        granted_to="agent:billing",
        scope={"action": "refund"},
        not_before=now - timedelta(hours=1),
        expires_at=now + timedelta(hours=8),
        uses=uses,
    )


def use_at_once(url: str, path: Path, kills: int) -> list[str]:
    """Return what processes were told of a grant before they were killed, some of them early."""
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[1])}
    command = [sys.executable, str(PROGRAM), url, str(path)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(PROCESSES)
    ]
    said: list[str] = []
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for number, process in enumerate(running):
        assert process.stdout is not None
        # The first ones are killed amid their work, the others once the grant is used up.
        while number >= kills and (line := process.stdout.readline()) != "ESCALATE\n":
            said.append(line.strip())
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().splitlines(keepends=True)
        said += [line.strip() for line in lines if line.endswith("\n")]
        process.stdout.close()
        process.wait()
    return said


@pytest.mark.parametrize(
    "rounds", [pytest.param(1, id="short"), pytest.param(12, id="full", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_grant_is_used_exactly_as_often_as_it_says(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, rounds: int
) -> None:
    postgres = kind == "postgresql"
    url = request.getfixturevalue("postgres_url") if postgres else str(tmp_path / "demur.db")
    open_store(url).close()
    for number in range(rounds):
        uses = 1 + 3 * number % 7
        grant = give(uses, number)
        path = tmp_path / "grant.json"
        path.write_bytes(grant.to_json())
        allowed = use_at_once(url, path, kills=2).count("ALLOW")
        with open_store(url, deadline_s=None) as store:
            records = [one for one in store.find_records() if f"g{number}" in one.lifted_by]
            used = store.count_uses([grant.compute_digest()])
            verification = verify_chain(store.backend)
            ring = KeyRing([KEY.trusted_key()])
            after = Gate(parse_policy(POLICY), store, keys=ring).decide(REQUEST, grants=[grant])

        # A killed process may not have said what was stored.
        assert allowed <= len(records) == uses
        assert list(used.values()) == [uses]
        assert [one.why for one in after.ignored_grants] == ["used_up"]
        assert verification.holds, verification.breaks
