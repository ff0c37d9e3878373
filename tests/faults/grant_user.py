"""A process that uses one grant again and again. Arguments: the store, and the file of the grant.

Each line is a verdict, printed once its decision was returned.
"""

import sys
from pathlib import Path

from faults.writer import POLICY

from demur.gate.gate import Gate
from demur.grants import KeyRing, SigningKey
from demur.model.grant import Grant
from demur.policy.loader import parse_policy
from demur.store.opening import open_store

KEY = SigningKey.from_randomness(bytes(32), key_id="k1", holder="user:mary")
REQUEST = {
    "action": {"type": "refund", "amount": {"value": 900, "currency": "USD"}},
    "subject": {"type": "agent", "id": "billing"},
}


def main(url: str, grant: str) -> None:
    """Decide until it is killed."""
    given = Grant.from_json(Path(grant).read_bytes())
    store = open_store(url, deadline_s=None)
    with Gate(parse_policy(POLICY), store, keys=KeyRing([KEY.trusted_key()])) as gate:
        print("ready", flush=True)  # noqa: T201 - its output is what it is for
        while True:
            print(gate.decide(REQUEST, grants=[given]).verdict, flush=True)  # noqa: T201 - see above


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
