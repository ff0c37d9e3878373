/**
 * Runs scenarios on the real frameworks with their mock models: a scenario a line of the input, its
 * result a line of the output. `tests/adapters/driver_typescript.py` compares the results.
 */

import { createInterface } from "node:readline";
import { AIMessage, AIMessageChunk, ToolMessage } from "@langchain/core/messages";
import type { BaseMessage } from "@langchain/core/messages";
import { tool as createTool } from "@langchain/core/tools";
import { dynamicTool, generateText, isStepCount, jsonSchema, streamText } from "ai";
import type { ToolSet } from "ai";
import { createAgent } from "langchain";
import { AISDKGuard, RefusedToolCall, refusalOf } from "../src/ai-sdk.ts";
import { DemurClient } from "../src/index.ts";
import { langChainGuard, refusalOf as refusalInMessage } from "../src/langchain.ts";
import { ANYTHING, ScriptedModel, mockModel } from "./scripted.ts";
import type { Turn } from "./scripted.ts";
import { PATIENCE_MS } from "./service.ts";

interface Scenario {
  readonly driver: string;
  readonly url: string;
  readonly prompt: string;
  readonly streams: boolean;
  readonly turns: readonly Turn[];
  readonly tools: readonly string[];
  readonly returns: Readonly<Record<string, string>>;
}

interface Result {
  readonly refusal: unknown;
  readonly text: string;
  readonly model_input: string;
  readonly orphans: number;
  readonly model_calls: number;
  readonly ran: readonly (readonly [string, unknown])[];
}

type Run = (name: string, given: unknown) => string;

async function runAiSdk(scenario: Scenario, run: Run): Promise<Omit<Result, "ran">> {
  const model = mockModel(scenario.turns);
  const guard = new AISDKGuard(new DemurClient({ url: scenario.url, timeoutMs: PATIENCE_MS }));
  const tools: ToolSet = Object.fromEntries(
    scenario.tools.map((name) => {
      const execute = async (given: unknown) => run(name, given);
      return [name, dynamicTool({ description: name, inputSchema: jsonSchema(ANYTHING), execute })];
    }),
  );
  const call = {
    model: guard.wrapModel(model),
    tools: guard.wrapTools(tools),
    prompt: scenario.prompt,
    stopWhen: isStepCount(10),
    maxRetries: 0,
  };
  const answer = scenario.streams ? await finished(streamText(call)) : await generateText(call);
  const parts = answer.steps.flatMap((step) => step.content);
  const errors = parts.flatMap((part) => (part.type === "tool-error" ? [part.error] : []));
  const refused = errors.findLast((one) => one instanceof RefusedToolCall);
  const asked = parts.filter((part) => part.type === "tool-call").length;
  const replied = parts.filter((part) => part.type === "tool-error" || part.type === "tool-result").length;
  const prompts = [...model.doGenerateCalls, ...model.doStreamCalls].map(({ prompt }) => prompt);
  return {
    refusal: refusalOf(answer.steps.at(-1)!) ?? refused?.envelope ?? null,
    text: answer.steps.map((step) => step.text).join(""),
    model_input: prompts.slice(1).map((prompt) => JSON.stringify(prompt)).join("\n"),
    orphans: asked - replied,
    model_calls: prompts.length,
  };
}

async function finished(answer: ReturnType<typeof streamText>) {
  let shown = "";
  for await (const text of answer.textStream) shown += text;
  const steps = await answer.steps;
  if (steps.map((step) => step.text).join("") !== shown) throw new Error("another text was streamed");
  return { steps };
}

async function runLangChain(scenario: Scenario, run: Run): Promise<Omit<Result, "ran">> {
  const model = new ScriptedModel(scenario.turns);
  const tools = scenario.tools.map((name) =>
    createTool(async (given) => run(name, given), { name, description: name, schema: ANYTHING }),
  );
  const guard = langChainGuard(new DemurClient({ url: scenario.url, timeoutMs: PATIENCE_MS }));
  const agent = createAgent({ model, tools, middleware: [guard] });
  const given = { messages: [{ role: "user", content: scenario.prompt }] };
  let messages: BaseMessage[] = [];
  let shown: BaseMessage[] = [];
  if (scenario.streams) {
    for await (const [mode, part] of await agent.stream(given, { streamMode: ["messages", "values"] })) {
      if (mode === "messages") shown.push(part[0] as BaseMessage);
      else messages = (part as { messages: BaseMessage[] }).messages;
    }
  } else {
    messages = (await agent.invoke(given)).messages;
    shown = messages;
  }
  const answers = shown.filter((one) => AIMessage.isInstance(one) || AIMessageChunk.isInstance(one));
  const asked = messages.flatMap((one) => (AIMessage.isInstance(one) ? (one.tool_calls ?? []) : []));
  const replied = new Set(messages.map((one) => (ToolMessage.isInstance(one) ? one.tool_call_id : null)));
  const sent = model.sent.slice(1).flatMap((each) => each.map((one) => one.text));
  return {
    refusal: messages.map(refusalInMessage).findLast(Boolean) ?? null,
    text: answers.map((one) => one.text).join(""),
    model_input: sent.join("\n"),
    orphans: asked.filter((call) => !replied.has(call.id ?? "")).length,
    model_calls: model.sent.length,
  };
}

const DRIVERS: Readonly<Record<string, (scenario: Scenario, run: Run) => Promise<Omit<Result, "ran">>>> = {
  "ai-sdk": runAiSdk,
  "langchain-js": runLangChain,
};

for await (const line of createInterface(process.stdin)) {
  const scenario = JSON.parse(line) as Scenario;
  const ran: [string, unknown][] = [];
  const run: Run = (name, given) => {
    ran.push([name, given]);
    return scenario.returns[name] ?? `${name} is done`;
  };
  const result = await DRIVERS[scenario.driver]!(scenario, run).catch((error: unknown) => ({
    error: error instanceof Error ? (error.stack ?? error.message) : String(error),
  }));
  console.log(JSON.stringify({ ...result, ran }));
}
