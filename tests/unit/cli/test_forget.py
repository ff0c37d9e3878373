import json

import pytest
from commandline import demur
from desk import SMALL, changed_store, decided

pytestmark = pytest.mark.usefixtures("desk")


def learned(*words: object) -> str:
    decided(SMALL, *words)
    ran = demur("learn", "last", "--outcome", "failure", "--expires", 1, "--json")
    memory_id: str = json.loads(ran.out)["memory_id"]
    return memory_id


def test_what_is_forgotten_no_longer_holds_anything_back() -> None:
    memory_id = learned()
    ran = demur("forget", memory_id, memory_id)

    assert (ran.status, ran.out) == (0, "forgot 1 experience of tenant default\n")
    assert decided(SMALL)["verdict"] == "ALLOW"


def test_the_label_stays() -> None:
    demur("forget", learned())

    assert "outcome failure" in demur("explain", "last").out


def test_a_memory_that_is_not_there_is_an_error_also_beside_others() -> None:
    ran = demur("forget", learned(), "gone")
    two = demur("forget", "gone", "too")

    assert (ran.status, ran.out) == (1, "forgot 1 experience of tenant default\n")
    assert "1 of these memories does not exist\n  help: is --tenant right?" in ran.err
    assert "2 of these memories are not there" in two.err


def test_another_tenant_s_memory_is_not_there() -> None:
    memory_id = learned("--tenant", "acme")

    assert demur("forget", memory_id).status == 1
    assert demur("forget", memory_id, "--tenant", "acme", "--json").out == (
        '{"tenant": "acme", "forgotten": 1}\n'
    )


def test_what_has_expired_is_deleted() -> None:
    learned()
    with changed_store() as connection:
        connection.execute("UPDATE experiences SET expires_at = '2020-01-01T00:00:00.000Z'")
    decided(SMALL)
    demur("learn", "last", "--outcome", "failure", "--expires", 1)

    assert demur("forget", "--expired").out == "forgot 1 experience of tenant default\n"
    assert demur("forget", "--expired").out == "forgot 0 experiences of tenant default\n"


@pytest.mark.parametrize("words", [(), ("x", "--expired")])
def test_it_is_said_what_to_forget_in_one_way(words: tuple[str, ...]) -> None:
    ran = demur("forget", *words)

    assert ran.status == 1
    assert "give memory ids or --expired" in ran.err
