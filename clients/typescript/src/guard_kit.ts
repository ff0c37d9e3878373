/** What the middleware of all frameworks shares: the context of checks, and checked tool calls. */

import type { CheckResult, RefusedResult } from "./check_result.ts";
import { isObject } from "./check_result.ts";
import type { CallOptions, DemurClient } from "./client.ts";
import type { Grant, JsonObject } from "./wire.ts";

/** Who asks, and in which run. */
export interface CallContext {
  /** The session or thread; by default each conversation with tool calls is a run. */
  readonly run?: string;
  readonly subject?: JsonObject;
  readonly locale?: string;
  readonly signals?: JsonObject;
}

/** A tool call as a framework hands it over; arguments may be the JSON that a model wrote. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: unknown;
}

export interface GuardOptions {
  /** The context of all checks, or a function that returns it for each. */
  readonly context?: CallContext | (() => CallContext);
  /** Returns the signed grants for a call that a person approved. */
  readonly grantFor?: (
    call: ToolCall,
    refused: RefusedResult,
  ) => readonly Grant[] | Promise<readonly Grant[]>;
}

/** Whether a call may run: the refusal if not, and the arguments and grants that it runs with. */
export interface Admission {
  readonly refused: RefusedResult | null;
  readonly arguments: unknown;
  readonly grants: readonly Grant[];
}

interface CheckedCall {
  readonly written: string;
  readonly result: CheckResult;
}

const MAX_KEPT = 4096;

/** Returns what to pass on of a checked value: the value itself, unless the check changed it. */
export function changedOr<Value>(result: CheckResult, value: Value): Value {
  return result.changed === null ? value : (result.changed as Value);
}

/** Returns texts that were checked together, joined by line ends, as the check changed them. */
export function divideChanged(texts: readonly string[], changed: string): readonly string[] {
  const lines = changed.split("\n");
  const counts = texts.map((text) => text.split("\n").length);
  const isDivisible = counts.reduce((total, count) => total + count, 0) === lines.length;
  if (!isDivisible) return texts.map((_, at) => (at === 0 ? changed : ""));
  return counts.map((count) => lines.splice(0, count).join("\n"));
}

/** Returns content with other texts, in the order of `listTexts`, which it takes from `texts`. */
export function replaceTexts<Content>(content: Content, texts: string[]): Content {
  const replace = (value: unknown): unknown => {
    if (typeof value === "string") return value ? (texts.shift() ?? "") : value;
    if (Array.isArray(value)) return value.map(replace);
    if (!isObject(value)) return value;
    const { text, data } = value;
    return {
      ...value,
      ...(typeof text === "string" && text ? { text: texts.shift() ?? "" } : {}),
      ...(isObject(data) ? { data: replace(data) } : {}),
    };
  };
  return replace(content) as Content;
}

export function isHard(result: CheckResult): result is RefusedResult {
  return !result.allowed && result.envelope.refusal_class === "HARD_BLOCK";
}

function mayBeApproved(refused: RefusedResult): boolean {
  const { advice, decided, refusal_class } = refused.envelope;
  return decided && advice === "request_approval" && refusal_class === "WORKFLOW_BLOCK";
}

/** Returns an answer with the help lines that it lacks below it. */
export function appendResources(text: string, resources: readonly string[]): string {
  const missing = resources.filter((line) => !text.includes(line));
  return missing.length ? [text, "", ...missing.map((line) => `- ${line}`)].join("\n") : text;
}

/** Returns the texts of a message's content, part by part. */
export function listTexts(content: unknown): string[] {
  if (typeof content === "string") return content ? [content] : [];
  if (Array.isArray(content)) return content.flatMap(listTexts);
  if (!isObject(content)) return [];
  const { text, data } = content;
  return [...(typeof text === "string" && text ? [text] : []), ...(isObject(data) ? listTexts(data) : [])];
}

/**
 * Returns the position after the model's last answer. Answers at the very end are the caller's
 * prefill, which counts as new.
 */
export function findNewStart<Message>(
  messages: readonly Message[],
  isAnswer: (message: Message) => boolean,
): number {
  let start = messages.length;
  while (start > 0 && isAnswer(messages[start - 1]!)) start -= 1;
  while (start > 0 && !isAnswer(messages[start - 1]!)) start -= 1;
  return start;
}

/** Returns what a provider's API said in an error, as the SDKs keep it; null if nothing. */
export function readErrorBody(error: unknown): JsonObject | null {
  if (!isObject(error)) return null;
  const { responseBody, error: inner } = error;
  if (isObject(inner)) return "error" in inner ? inner : { error: inner };
  try {
    const body: unknown = typeof responseBody === "string" ? JSON.parse(responseBody) : null;
    return isObject(body) ? body : null;
  } catch {
    return null;
  }
}

/** Keeps the newest entries of a map. */
export class RecentMap<Value> {
  readonly #entries = new Map<string, Value>();

  get(key: string): Value | undefined {
    return this.#entries.get(key);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  set(key: string, value: Value): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= MAX_KEPT) break;
      this.#entries.delete(oldest);
    }
  }
}

/** Checks the tool calls of an agent: all calls of a message before the first of them runs. */
export class ToolChecks {
  readonly client: DemurClient;
  readonly #options: GuardOptions;
  readonly #checked = new RecentMap<CheckedCall>();

  constructor(client: DemurClient, options: GuardOptions) {
    this.client = client;
    this.#options = options;
  }

  /** Returns the context of a check; `run` names the run if the context does not. */
  contextFor(run?: string): CallContext {
    const { context } = this.#options;
    const given = typeof context === "function" ? context() : (context ?? {});
    return run === undefined ? given : { run, ...given };
  }

  /**
   * Checks calls in order, and returns their results. After a hard refusal nothing further is
   * checked, and none of the calls may run.
   */
  async checkAll(
    calls: readonly ToolCall[],
    context: CallContext,
    options?: CallOptions,
  ): Promise<readonly CheckResult[]> {
    const results: CheckResult[] = [];
    for (const call of calls) {
      const result = await this.#check(call, context, [], options);
      this.#checked.set(this.#keyOf(call), { written: canonicalJson(call.arguments), result });
      results.push(result);
      if (isHard(result)) break;
    }
    return results;
  }

  /** Returns whether a call may run now. A call that was not checked before is checked. */
  async admit(call: ToolCall, context: CallContext, options?: CallOptions): Promise<Admission> {
    const checked = this.#checked.get(this.#keyOf(call));
    // It is the same call, so its run is not named again: its history would count it twice.
    const { run: _, ...unnamed } = context;
    let result = checked?.result ?? (await this.#check(call, context, [], options));
    if (result.allowed && checked && checked.written !== canonicalJson(call.arguments)) {
      result = await this.#check(call, unnamed, [], options);
    }
    const admit = (by: CheckResult, grants: readonly Grant[]): Admission => ({
      refused: by.allowed ? null : by,
      arguments: changedOr(by, call.arguments),
      grants,
    });
    if (result.allowed) return admit(result, []);
    const { grantFor } = this.#options;
    const grants = grantFor && mayBeApproved(result) ? await grantFor(call, result) : [];
    if (grants.length) result = await this.#check(call, unnamed, grants, options);
    return admit(result, grants);
  }

  /** Checks what a tool returned, or the text of its error, before a model reads it. */
  checkResult(
    call: ToolCall,
    result: unknown,
    context: CallContext,
    grants: readonly Grant[],
    options?: CallOptions,
  ): Promise<CheckResult> {
    const plain = result === undefined ? null : result;
    const given = { ...context, call_id: call.id, name: call.name, result: plain };
    const check = { ...given, arguments: asArguments(call.arguments), grants, changes: true };
    return this.client.checkToolResult(check, options);
  }

  #check(
    call: ToolCall,
    context: CallContext,
    grants: readonly Grant[],
    options?: CallOptions,
  ): Promise<CheckResult> {
    const check = { ...context, call_id: call.id, name: call.name, grants, changes: true };
    return this.client.checkToolCall({ ...check, arguments: asArguments(call.arguments) }, options);
  }

  #keyOf(call: ToolCall): string {
    // Providers may give the calls of different conversations the same id.
    const { run, subject } = this.contextFor();
    return JSON.stringify([call.id, call.name, run, subject]);
  }
}

function asArguments(value: unknown): JsonObject | string {
  return isObject(value) ? value : typeof value === "string" ? value : JSON.stringify(value ?? {});
}

/** Returns JSON with sorted keys; a text that holds JSON counts as what it holds. */
function canonicalJson(value: unknown): string {
  let plain = value;
  if (typeof value === "string") {
    try {
      plain = JSON.parse(value);
    } catch {
      return value;
    }
  }
  return JSON.stringify(plain, (_, one: unknown) =>
    isObject(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one,
  );
}
