/**
 * Guard agents of the Vercel AI SDK: prompts and answers by a middleware of the model, tool calls
 * and results in the tools' `execute`.
 *
 * The model's middleware sees all tool calls of a message before the first of them runs. After a
 * hard block it takes them out, so that the run ends; any other refusal reaches the model as the
 * error of the tool.
 */

import { wrapLanguageModel } from "ai";
import type { LanguageModelMiddleware, ToolSet } from "ai";
import { Refused } from "./check_result.ts";
import type { CheckResult, RefusedResult } from "./check_result.ts";
import type { CallOptions, DemurClient } from "./client.ts";
import {
  RecentMap,
  ToolChecks,
  appendResources,
  changedOr,
  divideChanged,
  findNewStart,
  isHard,
  listTexts,
  readErrorBody,
  replaceTexts,
} from "./guard_kit.ts";
import type { GuardOptions, ToolCall } from "./guard_kit.ts";
import { StreamGuard } from "./ai-sdk-stream.ts";
import type { Refusal } from "./wire.ts";

export type { CallContext, GuardOptions, ToolCall } from "./guard_kit.ts";

type WrapGenerate = NonNullable<LanguageModelMiddleware["wrapGenerate"]>;
type WrapStream = NonNullable<LanguageModelMiddleware["wrapStream"]>;
type Model = Parameters<typeof wrapLanguageModel>[0]["model"];
type Params = Parameters<WrapGenerate>[0]["params"];
type Message = Params["prompt"][number];
export type GenerateResult = Awaited<ReturnType<WrapGenerate>>;
export type StreamResult = Awaited<ReturnType<WrapStream>>;
export type StreamPart = StreamResult["stream"] extends ReadableStream<infer Part> ? Part : never;
export type FinishReason = GenerateResult["finishReason"];
type Metadata = NonNullable<GenerateResult["providerMetadata"]>;
type UserContent = (Message & { role: "user" })["content"];
type Execute = (input: unknown, options: ExecuteOptions) => unknown;

interface ExecuteOptions {
  readonly toolCallId: string;
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
  readonly abortSignal?: AbortSignal;
}

/** What the checks of one answer need; `params` are those of the model, as a check changed them. */
export interface Turn {
  readonly params: Params;
  readonly prompt: string;
  readonly run: string | undefined;
  readonly options: CallOptions;
}

/** A tool call or its result was refused. `message` is what the model reads. */
export class RefusedToolCall extends Refused {
  constructor(result: RefusedResult) {
    super(result);
    this.message = result.message;
  }
}

/** Returns the refusal in the metadata of an answer or of a step, or null if it was not refused. */
export function refusalOf(answer: { readonly providerMetadata: unknown }): Refusal | null {
  const metadata = answer.providerMetadata as { readonly demur?: { readonly refusal: Refusal } } | undefined;
  return metadata?.demur?.refusal ?? null;
}

/** Guards an agent: `generateText({ model: guard.wrapModel(model), tools: guard.wrapTools(tools) })`. */
export class AISDKGuard {
  /** The middleware of a language model, for `wrapLanguageModel`. Put it first in a list. */
  readonly middleware: LanguageModelMiddleware;
  readonly #client: DemurClient;
  readonly #checks: ToolChecks;
  // What stands in later turns for the user messages that were refused or changed.
  readonly #replacements = new RecentMap<UserContent>();
  // The results of tools: a refusal, or null for what was checked.
  readonly #results = new RecentMap<RefusedResult | null>();

  constructor(client: DemurClient, options: GuardOptions = {}) {
    this.#client = client;
    this.#checks = new ToolChecks(client, options);
    this.middleware = {
      specificationVersion: "v4",
      transformParams: ({ params }) => this.#withhold(params),
      wrapGenerate: (call) => this.#generate(call),
      wrapStream: (call) => this.#stream(call),
    };
  }

  /** Returns a model whose prompts, answers and tool calls are checked. */
  wrapModel(model: Model): ReturnType<typeof wrapLanguageModel> {
    return wrapLanguageModel({ model, middleware: this.middleware });
  }

  /** Returns tools that run only what is allowed, and return only what a model may read. */
  wrapTools<Tools extends ToolSet>(tools: Tools): Tools {
    const wrapped = Object.entries(tools).map(([name, tool]) => {
      const execute = tool.execute as Execute | undefined;
      if (execute === undefined) return [name, tool];
      const guarded: Execute = (input, options) =>
        this.#execute(name, (given, more) => execute.call(tool, given, more), input, options);
      return [name, { ...tool, execute: guarded }];
    });
    return Object.fromEntries(wrapped) as Tools;
  }

  async #execute(name: string, run: Execute, input: unknown, options: ExecuteOptions): Promise<unknown> {
    const call = { id: options.toolCallId, name, arguments: input };
    const more: CallOptions = options.abortSignal ? { signal: options.abortSignal } : {};
    const context = this.#checks.contextFor(findRun(options.messages) ?? call.id);
    const admission = await this.#checks.admit(call, context, more);
    const { refused, grants } = admission;
    if (refused !== null) throw this.#noteResult(call, refused);
    let output: unknown;
    try {
      output = await drain(run(admission.arguments, options));
    } catch (error) {
      // The model reads the message of an error.
      const text = error instanceof Error ? error.message : String(error);
      const checked = await this.#checks.checkResult(call, text, context, grants, more);
      this.#results.set(call.id, null);
      if (!checked.allowed) throw this.#noteResult(call, checked);
      throw checked.changed === null ? error : new Error(String(checked.changed));
    }
    const checked = await this.#checks.checkResult(call, output, context, grants, more);
    this.#results.set(call.id, null);
    if (!checked.allowed) throw this.#noteResult(call, checked);
    return changedOr(checked, output);
  }

  #noteResult(call: ToolCall, refused: RefusedResult): RefusedToolCall {
    this.#results.set(call.id, refused);
    return new RefusedToolCall(refused);
  }

  /** Replaces what was refused before, and results of tools that other code ran, if refused. */
  async #withhold(params: Params): Promise<Params> {
    const start = findNewStart(params.prompt, isAnswer);
    const prompt: Message[] = [];
    for (const [at, message] of params.prompt.entries()) {
      if (message.role === "user" && at < start) prompt.push(this.#withholdUser(message));
      else if (message.role === "tool" && at >= start) {
        prompt.push(await this.#checkResults(message, params));
      } else prompt.push(message);
    }
    return { ...params, prompt };
  }

  #withholdUser(message: Message & { role: "user" }): Message {
    const content = this.#replacements.get(keyOf(message.content));
    return content === undefined ? message : { ...message, content };
  }

  async #checkResults(message: Message & { role: "tool" }, params: Params): Promise<Message> {
    const context = this.#checks.contextFor(findRun(params.prompt));
    const content: typeof message.content = [];
    for (const part of message.content) {
      const known = part.type === "tool-result" ? this.#results.get(part.toolCallId) : null;
      if (part.type !== "tool-result" || known !== undefined) {
        // A check holds for one reading: another conversation may have the same ids.
        if (part.type === "tool-result" && known === null) this.#results.delete(part.toolCallId);
        content.push(part);
        continue;
      }
      const call = { id: part.toolCallId, name: part.toolName, arguments: {} };
      const value = "value" in part.output ? part.output.value : (part.output.reason ?? "");
      const result = await this.#checks.checkResult(call, value, context, [], optionsOf(params));
      if (!result.allowed) this.#results.set(part.toolCallId, result);
      const error = { type: "error-text", value: result.message } as const;
      const changed = { ...part.output, value: result.changed } as typeof part.output;
      const output = result.allowed ? (result.changed === null ? part.output : changed) : error;
      content.push({ ...part, output });
    }
    return { ...message, content };
  }

  /** Checks what is new in the prompt; returns the refusal that ends the run, or the turn. */
  async #begin(params: Params): Promise<RefusedResult | Turn> {
    const added = params.prompt.slice(findNewStart(params.prompt, isAnswer));
    for (const message of added) {
      for (const part of message.role === "tool" ? message.content : []) {
        const refused = part.type === "tool-result" ? this.#results.get(part.toolCallId) : null;
        if (refused && isHard(refused)) return refused;
      }
    }
    const run = findRun(params.prompt);
    const options = optionsOf(params);
    const users = added.filter((one) => one.role === "user");
    const texts = users.map((one) => listTexts(one.content));
    const passed = new Map<Message, Message>();
    if (users.length) {
      const text = texts.flat().join("\n");
      const check = { ...this.#checks.contextFor(run), text, changes: true };
      const result = await this.#client.checkPrompt(check, options);
      if (!result.allowed) {
        const withheld = `[withheld: ${result.envelope.code}]`;
        for (const { content } of users) this.#replace(content, [{ type: "text", text: withheld }]);
        return result;
      }
      const changed = [...divideChanged(texts.flat(), changedOr(result, text))];
      for (const message of result.changed === null ? [] : users) {
        const content = replaceTexts(message.content, changed);
        this.#replace(message.content, content);
        passed.set(message, { ...message, content });
      }
    }
    const prompt = params.prompt.map((message) => passed.get(message) ?? message);
    const last = prompt.filter((one) => one.role === "user").at(-1);
    return { params: { ...params, prompt }, prompt: listTexts(last?.content).join("\n"), run, options };
  }

  #replace(content: UserContent, other: UserContent): void {
    const key = keyOf(content);
    if (key) this.#replacements.set(key, other);
  }

  async #generate({ params: given, model }: Parameters<WrapGenerate>[0]): Promise<GenerateResult> {
    const turn = await this.#begin(given);
    if ("allowed" in turn) return refusedAnswer(turn);
    const { params } = turn;
    const first = await this.#checkGenerated(() => model.doGenerate(params), turn);
    if (typeof first !== "string") return first;
    // The model answers once more, and gets the reason.
    const prompt = [...params.prompt, { role: "user" as const, content: [{ type: "text" as const, text: first }] }];
    const again = await this.#checkGenerated(() => model.doGenerate({ ...params, prompt }), turn, true);
    return again as GenerateResult;
  }

  /** Returns an answer or its refusal; or what to tell the model so that it answers once more. */
  async #checkGenerated(
    generate: () => PromiseLike<GenerateResult>,
    turn: Turn,
    isLast = false,
  ): Promise<GenerateResult | string> {
    const answer = await this.#catchRefusal(generate, turn);
    if ("allowed" in answer) return refusedAnswer(answer);
    const text = answer.content.map((part) => (part.type === "text" ? part.text : "")).join("");
    const calls = answer.content.filter((part) => part.type === "tool-call").flatMap(toCall);
    const refusal = await this.readFilter(answer.finishReason, turn, answer.response?.body);
    if (refusal !== null) return refusedAnswer(refusal, answer);
    const checked = text === "" ? null : await this.#checkAnswer(text, turn);
    if (checked !== null && !checked.allowed) {
      return checked.reask && !isLast ? checked.reask : refusedAnswer(checked, answer);
    }
    const ending = await this.checkCalls(calls, turn);
    if (ending !== null) return refusedAnswer(ending, answer);
    const passed = checked === null ? text : changedOr(checked, text);
    const shown = appendResources(passed, checked?.resources ?? []);
    const content = shown === text ? answer.content : replaceText(answer.content, text, shown);
    const declined = calls.length ? null : await this.readProse(passed, turn);
    if (declined === null) return shown === text ? answer : { ...answer, content };
    return { ...answer, content, providerMetadata: addMetadata(answer.providerMetadata, declined) };
  }

  async #stream({ params, model }: Parameters<WrapStream>[0]): Promise<StreamResult> {
    const turn = await this.#begin(params);
    if ("allowed" in turn) return { stream: toStream(refusedParts(turn)) };
    const answer = await this.#catchRefusal(() => model.doStream(turn.params), turn);
    if ("allowed" in answer) return { stream: toStream(refusedParts(answer)) };
    const openStream = (source: AsyncIterable<string>) => {
      const context = this.#checks.contextFor(turn.run);
      const check = { ...context, prompt: turn.prompt, changes: true };
      return this.#client.streamAnswer(source, check, turn.options);
    };
    const guard = new StreamGuard(this, turn, openStream);
    return { ...answer, stream: toStream(guard.filter(answer.stream)) };
  }

  /** Returns the answer of a model, or its refusal if the provider refuses by an error. */
  async #catchRefusal<Answer>(call: () => PromiseLike<Answer>, turn: Turn): Promise<Answer | RefusedResult> {
    try {
      return await call();
    } catch (error) {
      const response = readErrorBody(error);
      if (response === null) throw error;
      const check = { ...this.#checks.contextFor(turn.run), response, prompt: turn.prompt };
      const result = await this.#client.readRefusal(check, turn.options);
      if (result.allowed || result.error) throw error;
      return result;
    }
  }

  #checkAnswer(text: string, turn: Turn): Promise<CheckResult> {
    const { prompt } = turn;
    const check = { ...this.#checks.contextFor(turn.run), text, prompt, changes: true };
    return this.#client.checkAnswer(check, turn.options);
  }

  /** Returns the hard refusal of one of the calls, if there is one. */
  async checkCalls(calls: readonly ToolCall[], turn: Turn): Promise<RefusedResult | null> {
    if (!calls.length) return null;
    const context = this.#checks.contextFor(turn.run ?? calls[0]?.id);
    return (await this.#checks.checkAll(calls, context, turn.options)).find(isHard) ?? null;
  }

  /** Returns the refusal of a provider that filtered the answer. */
  async readFilter(reason: FinishReason, turn: Turn, body?: unknown): Promise<RefusedResult | null> {
    if (reason.unified !== "content-filter") return null;
    const context = this.#checks.contextFor(turn.run);
    for (const response of body === undefined ? [FILTERED] : [body, FILTERED]) {
      const check = { ...context, response, prompt: turn.prompt };
      const result = await this.#client.readRefusal(check, turn.options);
      if (!result.allowed) return result;
    }
    return null;
  }

  /** Returns the refusal of a model that declined in its own words. */
  async readProse(text: string, turn: Turn): Promise<RefusedResult | null> {
    if (text.trim() === "") return null;
    const check = { ...this.#checks.contextFor(turn.run), text, prompt: turn.prompt };
    const result = await this.#client.readRefusal(check, turn.options);
    return result.allowed ? null : result;
  }
}

// What OpenAI's API says of a filtered answer; the SDK's own reason is no format of a provider.
const FILTERED = {
  object: "chat.completion",
  choices: [{ index: 0, finish_reason: "content_filter", message: { role: "assistant", content: "" } }],
};

const NO_TOKENS = { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
const NO_USAGE: GenerateResult["usage"] = {
  inputTokens: NO_TOKENS,
  outputTokens: { total: undefined, text: undefined, reasoning: undefined },
};
const REFUSED: FinishReason = { unified: "content-filter", raw: "demur" };

export function addMetadata(given: Metadata | undefined, refused: RefusedResult): Metadata {
  // The envelope is plain JSON.
  const demur = { refusal: refused.envelope, line: refused.line } as unknown as Metadata[string];
  return { ...given, demur };
}

function refusedAnswer(refused: RefusedResult, answer?: GenerateResult): GenerateResult {
  const providerMetadata = addMetadata(answer?.providerMetadata, refused);
  const { demur } = providerMetadata;
  return {
    usage: NO_USAGE,
    warnings: [],
    ...answer,
    content: [{ type: "text", text: refused.text, providerMetadata: { demur: demur! } }],
    finishReason: REFUSED,
    providerMetadata,
  };
}

/** Yields the end of a stream that is refused; `words` were not shown yet. */
export function* refusedParts(
  refused: RefusedResult,
  finish?: StreamPart & { type: "finish" },
  words = refused.text,
): Generator<StreamPart> {
  const providerMetadata = addMetadata(finish?.providerMetadata, refused);
  const mark = { demur: providerMetadata["demur"]! };
  const id = "demur-refusal";
  if (finish === undefined) yield { type: "stream-start", warnings: [] };
  if (words) {
    yield { type: "text-start", id, providerMetadata: mark };
    yield { type: "text-delta", id, delta: words };
    yield { type: "text-end", id, providerMetadata: mark };
  }
  yield { usage: NO_USAGE, ...finish, type: "finish", finishReason: REFUSED, providerMetadata };
}

/** Returns content with another text: added to the last text, or in place of all of them. */
function replaceText(content: GenerateResult["content"], text: string, shown: string): GenerateResult["content"] {
  if (shown.startsWith(text)) return [...content, { type: "text", text: shown.slice(text.length) }];
  const first = content.findIndex((part) => part.type === "text");
  const changed = content.map((part, at) => (at === first ? { type: "text" as const, text: shown } : part));
  return changed.filter((part, at) => part.type !== "text" || at === first);
}

/** Returns a call that the SDK would run; none for one that the provider ran. */
export function toCall(part: StreamPart | GenerateResult["content"][number]): ToolCall[] {
  if (part.type !== "tool-call" || part.providerExecuted) return [];
  return [{ id: part.toolCallId, name: part.toolName, arguments: part.input }];
}

/** Returns the key of a user message: its texts. */
function keyOf(content: UserContent): string {
  return listTexts(content).join("\n");
}

function isAnswer(message: { readonly role: string }): boolean {
  return message.role === "assistant";
}

function optionsOf(params: Params): CallOptions {
  return params.abortSignal ? { signal: params.abortSignal } : {};
}

/** Returns the id of the first tool call of a conversation: it names the run. */
function findRun(messages: ExecuteOptions["messages"]): string | undefined {
  for (const { role, content } of messages) {
    for (const part of role === "assistant" && Array.isArray(content) ? content : []) {
      if (part.type === "tool-call") return part.toolCallId as string;
    }
  }
  return undefined;
}

/** Returns the last value of a tool that yields preliminary ones, which nobody checks. */
async function drain(output: unknown): Promise<unknown> {
  const settled = await output;
  if (typeof settled !== "object" || settled === null || !(Symbol.asyncIterator in settled)) return settled;
  let last: unknown;
  for await (const value of settled as AsyncIterable<unknown>) last = value;
  return last;
}

function toStream(parts: Iterable<StreamPart> | AsyncIterable<StreamPart>): ReadableStream<StreamPart> {
  return ReadableStream.from(parts) as ReadableStream<StreamPart>;
}
