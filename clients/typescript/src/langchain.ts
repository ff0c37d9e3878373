/**
 * Guard agents of LangChain.js: one middleware for `createAgent`.
 *
 * User messages are checked before the model reads them, answers before anyone else does, and all
 * tool calls of one message before the first of them runs.
 */

import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import type { BaseMessage } from "@langchain/core/messages";
import { createMiddleware } from "langchain";
import type { RefusedResult } from "./check_result.ts";
import { isObject } from "./check_result.ts";
import type { CallOptions, DemurClient } from "./client.ts";
import { ToolChecks, appendResources, divideChanged, findNewStart, isHard, listTexts, replaceTexts } from "./guard_kit.ts";
import type { CallContext, GuardOptions, ToolCall } from "./guard_kit.ts";
import { ModelWatch } from "./langchain-model.ts";
import type { Refusal } from "./wire.ts";

export type { CallContext, GuardOptions, ToolCall } from "./guard_kit.ts";

/** Returns the refusal that a message holds: an answer's or a tool's reply; null if it holds none. */
export function refusalOf(message: BaseMessage | undefined): Refusal | null {
  const place: unknown = ToolMessage.isInstance(message) ? message.artifact : message?.response_metadata;
  const refusal = isObject(place) ? place["refusal"] : null;
  return isObject(refusal) ? (refusal as unknown as Refusal) : null;
}

/** The runtime of a hook, as far as it is read here. */
interface HookRuntime {
  readonly configurable?: unknown;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Guards an agent: `createAgent({ model, tools, middleware: [langChainGuard(client)] })`.
 *
 * Put it last in the list, so that it sees the final requests and calls; a middleware that handles
 * errors of tools goes behind it, because the model gets these as replies here.
 */
export function langChainGuard(client: DemurClient, options: GuardOptions = {}) {
  const guard = new LangChainGuard(client, options);
  return createMiddleware({
    name: "DemurGuard",
    beforeModel: {
      canJumpTo: ["end"],
      hook: async (state, runtime) => {
        const { messages, isRefused } = await guard.checkMessages(state.messages, runtime);
        if (!messages.length) return undefined;
        return isRefused ? { messages, jumpTo: "end" as const } : { messages };
      },
    },
    wrapModelCall: async (request, handler) => {
      const { state, runtime } = request;
      const known = new Set<unknown>(state.messages);
      const added = request.messages.filter((one) => !known.has(one) && isUser(one));
      const checked = await guard.checkUsers(added, state.messages, runtime);
      if ("refused" in checked) return answerFor(checked.refused);
      const messages = request.messages.map((one) => checked.changed.get(one) ?? one);
      const call = async (watch: ModelWatch, more: readonly HumanMessage[]) => {
        const model = (await watch.wrapModel(request.model)) as typeof request.model;
        try {
          const answer = await handler({ ...request, model, messages: [...messages, ...more] });
          return AIMessage.isInstance(answer) ? await watch.checkAnswer(answer) : await watch.checkStructured(answer);
        } catch (error) {
          const end = await watch.readError(error);
          if (end === null) throw error;
          return end;
        }
      };
      const watch = new ModelWatch(guard.answerChecks(messages, runtime));
      const answer = await call(watch, []);
      if (!watch.reask) return answer;
      // The model answers once more, and gets the reason.
      return call(new ModelWatch(guard.answerChecks(messages, runtime)), [new HumanMessage(watch.reask)]);
    },
    afterModel: {
      canJumpTo: ["end"],
      hook: async (state, runtime) => {
        const last = state.messages.at(-1);
        if (last && isRefused(last)) return { jumpTo: "end" as const };
        const messages = await guard.checkCalls(state.messages, runtime);
        return messages === null ? undefined : { messages, jumpTo: "end" as const };
      },
    },
    wrapToolCall: async (request, handler) => {
      const call = { ...request.toolCall, id: request.toolCall.id ?? "" };
      return guard.callTool(call, request.state.messages, request.runtime, (given) => {
        const args = given as typeof request.toolCall.args;
        const { toolCall } = request;
        return handler(args === toolCall.args ? request : { ...request, toolCall: { ...toolCall, args } });
      });
    },
  });
}

interface LangChainCall {
  readonly id: string;
  readonly name: string;
  readonly args: unknown;
}

/** What an answer needs of a refusal. */
type Answerable = Pick<RefusedResult, "envelope" | "text" | "line">;

/** User messages that were refused, or those that take the place of changed ones. */
type CheckedUsers = { readonly refused: RefusedResult } | { readonly changed: Map<BaseMessage, BaseMessage> };

/** The checks of one answer. */
export interface AnswerChecks {
  readonly client: DemurClient;
  readonly context: CallContext;
  readonly prompt: string;
  readonly options: CallOptions;
}

class LangChainGuard {
  readonly #client: DemurClient;
  readonly #checks: ToolChecks;

  constructor(client: DemurClient, options: GuardOptions) {
    this.#client = client;
    this.#checks = new ToolChecks(client, options);
  }

  /** Checks new user messages; returns those that take their place, and the answer if refused. */
  async checkMessages(
    messages: readonly BaseMessage[],
    runtime: HookRuntime,
  ): Promise<{ readonly messages: BaseMessage[]; readonly isRefused: boolean }> {
    const added = messages.slice(findNewStart(messages, isAnswer));
    const ended = added.map(readHardRefusal).find(Boolean);
    if (ended) return { messages: [answerFor(ended)], isRefused: true };
    const users = added.filter(isUser);
    const checked = await this.checkUsers(users, messages, runtime);
    if (!("refused" in checked)) return { messages: [...checked.changed.values()], isRefused: false };
    const { envelope } = checked.refused;
    const withheld = users.map(
      ({ id }) =>
        new HumanMessage({
          content: `[withheld: ${envelope.code}]`,
          response_metadata: { refusal: envelope },
          ...(id === undefined ? {} : { id }),
        }),
    );
    return { messages: [...withheld, answerFor(checked.refused)], isRefused: true };
  }

  answerChecks(messages: readonly BaseMessage[], runtime: HookRuntime): AnswerChecks {
    const prompt = listTexts(messages.filter(isUser).at(-1)?.content).join("\n");
    const context = this.#checks.contextFor(findRun(messages, runtime));
    return { client: this.#client, context, prompt, options: optionsOf(runtime) };
  }

  /**
   * Checks the calls of the last answer. After a hard refusal, returns a reply to each of them and
   * the answer; `callTool` replies to calls that are refused otherwise.
   */
  async checkCalls(
    messages: readonly BaseMessage[],
    runtime: HookRuntime,
  ): Promise<BaseMessage[] | null> {
    const calls = listOpenCalls(messages);
    if (!calls.length) return null;
    const context = this.#checks.contextFor(findRun(messages, runtime) ?? calls[0]!.id);
    const results = await this.#checks.checkAll(calls.map(toCall), context, optionsOf(runtime));
    const hard = results.find(isHard);
    if (hard === undefined) return null;
    const replies = calls.map((call, at) => {
      const result = results[at];
      return result && !result.allowed ? replyTo(call, result) : new ToolMessage(notRun(call, hard));
    });
    return [...replies, answerFor(hard)];
  }

  /** Runs a tool if its call is allowed, and returns its result or a refusal. */
  async callTool<Result>(
    call: LangChainCall,
    messages: readonly BaseMessage[],
    runtime: HookRuntime,
    run: (given: unknown) => Result | Promise<Result>,
  ): Promise<Result | ToolMessage> {
    const options = optionsOf(runtime);
    const context = this.#checks.contextFor(findRun(messages, runtime) ?? call.id);
    const admission = await this.#checks.admit(toCall(call), context, options);
    const { refused, grants } = admission;
    if (refused !== null) return replyTo(call, refused);
    let output: Result | ToolMessage;
    try {
      output = await run(admission.arguments);
    } catch (error) {
      if (isBubbleUp(error) || runtime.signal?.aborted) throw error;
      output = replyToError(call, error);
    }
    for (const message of listResults(output)) {
      const content = readContent(message);
      const result = await this.#checks.checkResult(toCall(call), content, context, grants, options);
      if (!result.allowed) return replyTo(call, result);
      if (result.changed !== null) message.content = result.changed as typeof message.content;
    }
    return output;
  }

  /** Checks user messages together; returns the refusal, or those that the check changed. */
  async checkUsers(
    users: readonly BaseMessage[],
    messages: readonly BaseMessage[],
    runtime: HookRuntime,
  ): Promise<CheckedUsers> {
    const changed = new Map<BaseMessage, BaseMessage>();
    if (!users.length) return { changed };
    const texts = users.flatMap((one) => listTexts(one.content));
    const text = texts.join("\n");
    const check = { ...this.#checks.contextFor(findRun(messages, runtime)), text, changes: true };
    const result = await this.#client.checkPrompt(check, optionsOf(runtime));
    if (!result.allowed) return { refused: result };
    if (result.changed === null) return { changed };
    const others = [...divideChanged(texts, result.changed as string)];
    for (const one of users) {
      const content = replaceTexts(one.content, others);
      const fields = { ...one.lc_kwargs, content: content as string };
      changed.set(one, new HumanMessage(one.id === undefined ? fields : { ...fields, id: one.id }));
    }
    return { changed };
  }
}

/** Returns a refusal as an answer, in place of the message with that id. */
export function answerFor(refused: Answerable, id?: string): AIMessage {
  return new AIMessage({
    content: refused.text,
    response_metadata: { refusal: refused.envelope },
    additional_kwargs: { refusal: refused.line },
    ...(id === undefined ? {} : { id }),
  });
}

/** Returns an answer with the help lines that it lacks. */
export function addResources(answer: AIMessage, resources: readonly string[]): AIMessage {
  const text = listTexts(answer.content).join("");
  const added = appendResources(text, resources).slice(text.length);
  if (!added) return answer;
  const { content } = answer;
  return withContent(answer, typeof content === "string" ? content + added : [...content, { type: "text", text: added }]);
}

/** Returns an answer with another content. */
export function withContent(answer: AIMessage, content: unknown): AIMessage {
  const { id, response_metadata } = answer;
  return new AIMessage({ ...answer.lc_kwargs, response_metadata, id: id as string, content: content as string });
}

function replyTo(call: LangChainCall, refused: RefusedResult): ToolMessage {
  return new ToolMessage({
    content: refused.message,
    tool_call_id: call.id,
    name: call.name,
    status: "error",
    artifact: { refusal: refused.envelope, text: refused.text },
  });
}

/** Returns the reply that LangChain itself makes of an error, if no middleware wraps the tools. */
function replyToError(call: LangChainCall, error: unknown): ToolMessage {
  const isInvocation = error instanceof Error && error.name === "ToolInvocationError";
  const content = isInvocation ? error.message : `${error}\n Please fix your mistakes.`;
  return new ToolMessage({ content, tool_call_id: call.id, name: call.name, status: "error" });
}

/** Tells whether an error is an interrupt or another signal to the graph. */
function isBubbleUp(error: unknown): boolean {
  return error instanceof Error && "is_bubble_up" in error && error.is_bubble_up === true;
}

function notRun(call: LangChainCall, hard: RefusedResult) {
  const content = `Not run: another call of this message was refused (${hard.envelope.code}).`;
  return { content, tool_call_id: call.id, name: call.name, status: "error" as const };
}

function isAnswer(message: BaseMessage): boolean {
  return AIMessage.isInstance(message);
}

function isUser(message: BaseMessage): boolean {
  return HumanMessage.isInstance(message) || message.type === "generic";
}

function isRefused(message: BaseMessage): boolean {
  return AIMessage.isInstance(message) && refusalOf(message) !== null && !message.tool_calls?.length;
}

/** Returns the hard refusal that a tool's reply holds, if it is one. */
function readHardRefusal(message: BaseMessage): Answerable | null {
  const envelope = ToolMessage.isInstance(message) ? refusalOf(message) : null;
  if (envelope?.refusal_class !== "HARD_BLOCK") return null;
  const { text } = (message as ToolMessage).artifact as { readonly text: string };
  return { envelope, text, line: envelope.line };
}

function listOpenCalls(messages: readonly BaseMessage[]): LangChainCall[] {
  const at = messages.findLastIndex((one) => AIMessage.isInstance(one));
  const answer = messages[at];
  if (answer === undefined || !AIMessage.isInstance(answer)) return [];
  const answered = new Set(
    messages.slice(at + 1).map((one) => (ToolMessage.isInstance(one) ? one.tool_call_id : null)),
  );
  const calls = (answer.tool_calls ?? []).map((call) => ({ ...call, id: call.id ?? "" }));
  return calls.filter((call) => !answered.has(call.id));
}

function toCall({ id, name, args }: LangChainCall): ToolCall {
  return { id, name, arguments: args };
}

/** Returns what a model would read of a tool's output: a message, or those in a command. */
function listResults(output: unknown): ToolMessage[] {
  if (ToolMessage.isInstance(output)) return [output];
  const update = isObject(output) ? output["update"] : null;
  const messages = isObject(update) ? update["messages"] : null;
  const every = Array.isArray(messages) ? messages : [];
  return every.filter((one): one is ToolMessage => ToolMessage.isInstance(one));
}

function readContent(message: ToolMessage): unknown {
  const { content } = message;
  if (typeof content === "string") return content;
  const isText = content.every((part) => part.type === "text");
  return isText ? listTexts(content).join("\n") : content;
}

/** Returns the thread, or the id of the conversation's first tool call. */
function findRun(messages: readonly BaseMessage[], runtime: HookRuntime): string | undefined {
  const { configurable } = runtime;
  const thread = isObject(configurable) ? configurable["thread_id"] : undefined;
  if (typeof thread === "string" && thread) return thread;
  for (const message of messages) {
    const call = AIMessage.isInstance(message) ? message.tool_calls?.[0] : undefined;
    if (call?.id) return call.id;
  }
  return undefined;
}

function optionsOf({ signal }: HookRuntime): CallOptions {
  return signal ? { signal } : {};
}
