"""A support agent: it pays small refunds, and waits for people with large ones.

    python support_agent.py ada "My order A-1 never came. I want my money back."
    python support_agent.py --go-on

The first line asks. The second goes on with what people have decided since. Run both in this
folder: the settings are in demur.toml, the rules in policy.yaml, the records in demur.db.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from shop import describe, find_own_order

from demur import Enforcer, open_enforcer, parse_refusal
from demur.enforce import CallContext, CheckResult
from demur.grants import Grant

SUBJECT = {"type": "agent", "id": "support"}

# A customer's or a tool's words: `role` and `content`; those of a tool with the call it answers.
Message = dict[str, str]


class ToolCall(NamedTuple):
    """A call that the model wants to make."""

    name: str
    arguments: dict[str, Any]

    def reply(self, content: str) -> Message:
        """Return the message with which the tool answers."""
        call = {"name": self.name, "arguments": json.dumps(self.arguments)}
        return {"role": "tool", "content": content, **call}


# A model reads the conversation, and calls a tool or answers.
Model = Callable[[Sequence[Message]], ToolCall | str]

REPLIES = {
    "REFUND_OVER_ESCALATION_LIMIT": "A colleague has to approve this. I'll write to you then.",
    "MISSING_EVIDENCE_REFUND": "I find no such order of yours. Which number is on your receipt?",
}


def stand_in_model(messages: Sequence[Message]) -> ToolCall | str:
    """Stand in for a model: find an order number by a pattern, and follow a few fixed rules.

    It understands nothing. Pass a function that calls your model to `SupportAgent` instead.
    """
    text = messages[-1]["content"]
    if messages[-1]["role"] == "tool":
        refusal = parse_refusal(text.partition("\n")[0])
        return text if refusal is None else REPLIES.get(refusal.code, "I cannot refund this order.")
    number = re.search(r"\b[A-Z]-\d+\b", text)
    if "money back" in text:
        return ToolCall("refund", {"order": number[0] if number else ""})
    return ToolCall("find_order", {"order": number[0]}) if number else "Which order is it?"


class Waiting(NamedTuple):
    """A call that people decide on, and the conversation to go on with."""

    decision_id: str
    customer: str
    call: ToolCall
    messages: list[Message]


class Desk:
    """The memory of the desk, in a file: refunds, calls that wait, and approvals."""

    def __init__(self, path: Path) -> None:
        self.path = path
        kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self.refunds: list[str] = kept.get("refunds", [])
        self.approvals: list[str] = kept.get("approvals", [])
        self.waiting = [
            Waiting(**{**one, "call": ToolCall(**one["call"])}) for one in kept.get("waiting", [])
        ]

    def save(self) -> None:
        """Write everything to the file."""
        waiting = [{**one._asdict(), "call": one.call._asdict()} for one in self.waiting]
        kept = {"refunds": self.refunds, "approvals": self.approvals, "waiting": waiting}
        self.path.write_text(json.dumps(kept, indent=1), encoding="utf-8")


class SupportAgent:
    """Answers customers. Each step is checked before it is taken."""

    def __init__(self, enforcer: Enforcer, model: Model, desk: Desk) -> None:
        self.enforcer = enforcer
        self.model = model
        self.desk = desk
        self.tools = {"find_order": self.find_order, "refund": self.refund}

    def find_order(self, customer: str, number: str) -> str:
        """Tool: say what an order cost."""
        order = find_own_order(customer, number)
        return f"Order {number}: {order.usd} dollars." if order else f"There is no order {number}."

    def refund(self, customer: str, number: str) -> str:
        """Tool: pay an order back. It knows no limit, because nothing gets here that is refused."""
        order = find_own_order(customer, number)
        if order is None or number in self.desk.refunds:
            return f"Order {number} was paid back before."
        self.desk.refunds.append(number)
        return f"Order {number}: {order.usd} dollars are on their way back to you."

    def answer(self, customer: str, text: str) -> str:
        """Return the answer to a customer's message."""
        checked = self.enforcer.check_prompt(text, self._context(customer))
        if not checked:
            return checked.user_text
        return self._converse(customer, [{"role": "customer", "content": text}])

    def go_on(self) -> Iterator[tuple[str, str]]:
        """Go on with what people have decided; yield each customer and the answer."""
        for one in tuple(self.desk.waiting):
            decided = self.enforcer.wait_for(one.decision_id, timeout_s=0)
            if decided.state == "waiting":
                continue
            self.desk.waiting.remove(one)
            content = decided.message
            if decided:
                self.desk.approvals.append(one.decision_id)
                content = self._use_tool(one.customer, one.call, one.messages, decided.grants)
            messages = [*one.messages, one.call.reply(content)]
            answer = self._converse(one.customer, messages)
            self.desk.save()
            yield one.customer, answer

    def _converse(self, customer: str, messages: list[Message]) -> str:
        """Let the model use tools until it answers."""
        for _ in range(8):
            step = self.model(messages)
            if isinstance(step, str):
                checked = self.enforcer.check_answer(step, self._context(customer))
                return step if checked else checked.user_text
            content = self._use_tool(customer, step, messages)
            messages = [*messages, step.reply(content)]
        return "I could not finish this. A colleague will read our conversation."

    def _use_tool(
        self, customer: str, call: ToolCall, messages: list[Message], grants: Iterable[Grant] = ()
    ) -> str:
        """Run a call if it is allowed; return what the model reads of it."""
        result = self.check(customer, call, grants or self._standing_approvals())
        if result.needs_approval and result.record:
            self.desk.waiting.append(Waiting(result.record.decision_id, customer, call, messages))
            self.desk.save()
        if not result:
            return result.model_message
        if call.name not in self.tools:
            return f"There is no tool {call.name}."
        content = self.tools[call.name](customer, str(call.arguments.get("order")))
        self.desk.save()  # The model may fail from here on, and a refund is paid once.
        checked = self.enforcer.check_tool_result(call.name, content, self._context(customer))
        return content if checked else checked.model_message

    def check(self, customer: str, call: ToolCall, grants: Iterable[Grant] = ()) -> CheckResult:
        """Decide on a call by the facts of the shop."""
        context, facts = self._context(customer), partial(describe, customer)
        return self.enforcer.check_tool_call(
            call.name, call.arguments, context, grants=grants, describe=facts
        )

    def _standing_approvals(self) -> Iterator[Grant]:
        """Yield the approvals that people gave for more than one request."""
        for decision_id in self.desk.approvals:
            for grant in self.enforcer.wait_for(decision_id, timeout_s=0).grants:
                if "request" not in grant.scope:
                    yield grant

    def _context(self, customer: str) -> CallContext:
        return CallContext("support_agent", run=customer, subject=SUBJECT)


def main() -> None:
    """Answer one message, or go on with what waited."""
    parser = argparse.ArgumentParser(description="Ask the support agent.")
    parser.add_argument("customer", nargs="?", default="ada", help="who is logged in")
    parser.add_argument("message", nargs="?", help="what they write")
    parser.add_argument("--go-on", action="store_true", help="go on with what people decided")
    args = parser.parse_args()
    with open_enforcer("demur.toml") as enforcer:
        agent = SupportAgent(enforcer, stand_in_model, Desk(Path("desk.json")))
        if args.message:
            print(agent.answer(args.customer, args.message))
        elif args.go_on:
            for customer, text in agent.go_on():
                print(f"to {customer}: {text}")
            print(f"still waiting: {len(agent.desk.waiting)}")
        else:
            parser.error('say something, like: ada "Where is my order A-1?"')


if __name__ == "__main__":
    main()
