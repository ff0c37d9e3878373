"""The shop that the support agent works for: a table stands in for its database."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Order(NamedTuple):
    """An order in the shop's database."""

    customer: str
    usd: int
    charged_back: bool = False


ORDERS = {
    "A-1": Order("ada", 40),
    "A-2": Order("ada", 900),
    "A-3": Order("ada", 350),
    "A-4": Order("ada", 5200),
    "B-1": Order("ben", 20, charged_back=True),
}


def find_own_order(customer: str, number: object) -> Order | None:
    """Return a customer's order. The order of anybody else is not found."""
    order = ORDERS.get(str(number))
    return order if order and order.customer == customer else None


def describe(customer: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a call. The model names the order; the shop says what it cost."""
    number = arguments.get("order")
    action: dict[str, Any] = {"type": name}
    # Nobody approves a refund to themselves: demur compares the logins with `on_behalf_of`.
    evidence: dict[str, Any] = {"order": number, "on_behalf_of": customer}
    order = find_own_order(customer, number)
    if name == "refund" and order:
        action["amount"] = {"value": order.usd, "currency": "USD"}
        evidence["charged_back"] = order.charged_back
    return {"action": action, "evidence": evidence}
