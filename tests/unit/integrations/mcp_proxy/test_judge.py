import asyncio

from gates import opened, rows
from mcp_talk import ORDERS, tool

from demur.integrations.mcp_proxy.definitions import parse_tool
from demur.integrations.mcp_proxy.judge import JudgedTool, ProxyRules, make_judge


def test_a_call_is_on_record_with_server_and_call() -> None:
    with opened() as gate:
        judge = make_judge(gate, "toy", ProxyRules())
        ruling = asyncio.run(judge.check_call("refund", {"amount": 20}, None, 7))
        [record] = rows(gate)

    assert not ruling.allowed
    assert record.action_type == "refund"
    assert record.personal is not None
    trace = record.personal.request["trace"]
    assert trace == {"framework": "mcp-proxy", "run": "toy", "call_id": "7", "server": "toy"}


def test_a_tool_that_was_doubted_and_turns_out_well_may_be_called() -> None:
    judge = make_judge(None, "toy", ProxyRules())
    doubted = JudgedTool(parse_tool(tool(), "toy"), trusted=False)

    assert asyncio.run(judge.check_call("echo", {"text": "x"}, doubted, 1)).allowed
    assert not asyncio.run(judge.check_call("echo", {"text": 5}, doubted, 2)).allowed


def test_warming_up_decides_nothing() -> None:
    with opened() as gate:
        make_judge(gate, "toy", ProxyRules(deny=["*"])).warm_up()

        assert rows(gate) == []


def test_lists_of_tools_are_patterns() -> None:
    judge = make_judge(None, "toy", ProxyRules(allow=["read_*"], deny=["read_secret*"]))

    def allowed(name: str) -> bool:
        return asyncio.run(judge.check_call(name, {}, None, 1)).allowed

    assert allowed("read_file")
    assert not allowed("read_secrets")
    assert not allowed("write_file")


def test_the_same_call_again_and_again_is_a_loop_unless_nobody_looks() -> None:
    def calls(rules: ProxyRules) -> list[bool]:
        judge = make_judge(None, "toy", rules)

        async def one() -> bool:
            ruling = await judge.check_call("poll", {}, None, 1)
            if ruling.allowed:
                await judge.check_result("poll", "nothing", {}, 1)
            return ruling.allowed

        return [asyncio.run(one()) for _ in range(3)]

    assert calls(ProxyRules()) == [True, True, False]
    assert all(calls(ProxyRules(loops=False)))


def test_texts_of_the_server_are_looked_at() -> None:
    judge = make_judge(None, "toy", ProxyRules())

    assert not asyncio.run(judge.check_passage(ORDERS, "x", "prompts/get")).allowed
    assert not asyncio.run(judge.check_sampling(ORDERS, 1)).allowed
    assert asyncio.run(judge.check_passage("Good morning.", "x", "prompts/get")).allowed
