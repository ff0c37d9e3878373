import asyncio

from gates import opened, rows
from mcp_talk import ORDERS, tool

from demur.integrations.mcp_proxy.definitions import offered
from demur.integrations.mcp_proxy.judge import Known, Rules, judge_of


def test_a_call_is_on_record_with_server_and_call() -> None:
    with opened() as gate:
        judge = judge_of(gate, "toy", Rules())
        ruling = asyncio.run(judge.call("refund", {"amount": 20}, None, 7))
        [record] = rows(gate)

    assert not ruling.allowed
    assert record.action_type == "refund"
    assert record.personal is not None
    trace = record.personal.request["trace"]
    assert trace == {"framework": "mcp-proxy", "run": "toy", "call_id": "7", "server": "toy"}


def test_a_tool_that_was_doubted_and_turns_out_well_may_be_called() -> None:
    judge = judge_of(None, "toy", Rules())
    doubted = Known(offered(tool(), "toy"), trusted=False)

    assert asyncio.run(judge.call("echo", {"text": "x"}, doubted, 1)).allowed
    assert not asyncio.run(judge.call("echo", {"text": 5}, doubted, 2)).allowed


def test_warming_up_decides_nothing() -> None:
    with opened() as gate:
        judge_of(gate, "toy", Rules(deny=["*"])).warm()

        assert rows(gate) == []


def test_lists_of_tools_are_patterns() -> None:
    judge = judge_of(None, "toy", Rules(allow=["read_*"], deny=["read_secret*"]))

    def allowed(name: str) -> bool:
        return asyncio.run(judge.call(name, {}, None, 1)).allowed

    assert allowed("read_file")
    assert not allowed("read_secrets")
    assert not allowed("write_file")


def test_the_same_call_again_and_again_is_a_loop_unless_nobody_looks() -> None:
    def calls(rules: Rules) -> list[bool]:
        judge = judge_of(None, "toy", rules)

        async def one() -> bool:
            ruling = await judge.call("poll", {}, None, 1)
            if ruling.allowed:
                await judge.result("poll", "nothing", {}, 1)
            return ruling.allowed

        return [asyncio.run(one()) for _ in range(3)]

    assert calls(Rules()) == [True, True, False]
    assert all(calls(Rules(loops=False)))


def test_texts_of_the_server_are_looked_at() -> None:
    judge = judge_of(None, "toy", Rules())

    assert not asyncio.run(judge.passage(ORDERS, "x", "prompts/get")).allowed
    assert not asyncio.run(judge.sampling(ORDERS, 1)).allowed
    assert asyncio.run(judge.passage("Good morning.", "x", "prompts/get")).allowed
