import asyncio
import gc
import weakref
from collections.abc import Generator, Iterator
from contextvars import copy_context

import pytest
from support.gates import gate_over, opened, rows

from demur.enforce.result import Refused
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations.guarded import current_check_result, guarding


@pytest.fixture
def gate() -> Iterator[Gate]:
    with opened() as made:
        yield made


def test_a_block_runs_only_if_it_is_allowed(gate: Gate) -> None:
    paid = {"ticket_id": "T-1", "amount": 20, "currency": "USD"}

    with guarding(gate, "refund", paid) as ruling:
        assert current_check_result() is ruling

    assert ruling.allowed
    assert current_check_result() is None
    with pytest.raises(Refused, match="MISSING_EVIDENCE_REFUND"), guarding(gate, "refund"):
        pytest.fail("the block ran")


def test_a_block_can_be_awaited(gate: Gate) -> None:
    async def blocks() -> tuple[str, ...]:
        with pytest.raises(Refused, match="MISSING_EVIDENCE_REFUND"):
            async with guarding(gate, "refund"):
                pytest.fail("the block ran")
        async with guarding(gate, "cleanup", accepted=["dry_run"]) as ruling:
            assert current_check_result() is ruling
        assert current_check_result() is None
        return ruling.constraints

    assert asyncio.run(blocks()) == ("dry_run",)


def test_a_block_is_entered_once(gate: Gate) -> None:
    block = guarding(gate, "cleanup", accepted=["dry_run"])
    with block:
        pass

    with pytest.raises(InputError, match="entered once"), block:
        pytest.fail("the block ran")
    assert len(rows(gate)) == 1


def test_a_block_in_a_generator_may_end_in_another_context(gate: Gate) -> None:
    def pieces() -> Generator[int, None, None]:
        with guarding(gate, "cleanup", accepted=["dry_run"]):
            yield 1

    begun = pieces()
    copy_context().run(next, begun)
    begun.close()

    assert current_check_result() is None


def test_a_gate_that_nobody_needs_is_not_kept() -> None:
    gate = gate_over(None)
    kept = weakref.ref(gate)
    with guarding(gate, "cleanup", accepted=["dry_run"], run="r1"):
        pass

    del gate
    gc.collect()

    assert kept() is None
