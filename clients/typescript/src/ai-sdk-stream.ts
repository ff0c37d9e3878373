/**
 * Filter the stream of a language model: parts keep their order, and none is sent before the text
 * ahead of it was cleared. Tool calls are sent with the complete answer.
 */

import { addMetadata, refusedParts, toCall } from "./ai-sdk.ts";
import type { AISDKGuard, FinishReason, StreamPart, Turn } from "./ai-sdk.ts";
import type { AnswerStream } from "./answer_stream.ts";
import type { RefusedResult } from "./check_result.ts";
import type { ToolCall } from "./guard_kit.ts";

/** Parts that show nothing of an answer. */
const PLAIN: readonly StreamPart["type"][] = ["stream-start", "response-metadata", "ping"];

/** A queue that one side fills and the other iterates over. */
class Queue<Item> implements AsyncIterable<Item> {
  readonly #items: Item[] = [];
  #wake: (() => void) | null = null;
  #isClosed = false;

  push(item: Item): void {
    this.#items.push(item);
    this.#wake?.();
  }

  close(): void {
    this.#isClosed = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for (;;) {
      while (this.#items.length) yield this.#items.shift()!;
      if (this.#isClosed) return;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

interface HeldPart {
  part: StreamPart;
  /** How much of the answer's text has to be cleared before it is sent. */
  readonly end: number;
}

/** Guards one streamed answer. */
export class StreamGuard {
  readonly #guard: AISDKGuard;
  readonly #turn: Turn;
  readonly #openStream: (source: AsyncIterable<string>) => AnswerStream;
  readonly #held: HeldPart[] = [];
  readonly #out = new Queue<StreamPart>();
  readonly #texts = new Queue<string>();
  readonly #calls: ToolCall[] = [];
  #answer: AnswerStream | null = null;
  #showing: Promise<void> | null = null;
  #text = "";
  #shown = "";
  readonly #raw: StreamPart[] = [];
  readonly #open = new Set<string>();
  #isRedacted = false;
  #finish: (StreamPart & { type: "finish" }) | undefined;

  constructor(guard: AISDKGuard, turn: Turn, openStream: (source: AsyncIterable<string>) => AnswerStream) {
    this.#guard = guard;
    this.#turn = turn;
    this.#openStream = openStream;
  }

  /** Yields the parts that may be sent. */
  async *filter(parts: ReadableStream<StreamPart>): AsyncGenerator<StreamPart, void, undefined> {
    const reader = parts.getReader();
    let failure: { readonly error: unknown } | null = null;
    const pumped = this.#pump(reader)
      .catch((error: unknown) => (failure = { error }))
      .finally(() => this.#out.close());
    try {
      yield* this.#out;
      await pumped;
    } finally {
      this.#texts.close();
      await reader.cancel().catch(() => undefined);
    }
    if (failure !== null) throw (failure as { readonly error: unknown }).error;
  }

  async #pump(reader: ReadableStreamDefaultReader<StreamPart>): Promise<void> {
    let isRefused = false;
    for (;;) {
      // The service may refuse before the model has ended.
      const refused = this.#showing?.then(() => "refused" as const);
      const next = await (refused ? Promise.race([reader.read(), refused]) : reader.read());
      if (next === "refused") isRefused = true;
      if (next === "refused" || next.done) break;
      this.#take(next.value);
    }
    this.#texts.close();
    await this.#showing;
    const result = this.#answer === null ? null : await this.#answer.result;
    if (result !== null && !result.allowed) return this.#refuse(result, this.#shown === "" ? undefined : "");
    if (isRefused) throw new Error("the stream of the answer ended early");
    const reason = this.#finish?.finishReason;
    const filtered = reason && (await this.#guard.readFilter(reason, this.#turn));
    const ending = filtered ?? (await this.#guard.checkCalls(this.#calls, this.#turn));
    if (ending) return this.#refuse(ending);
    const declined = this.#calls.length ? null : await this.#guard.readProse(this.#text, this.#turn);
    this.#release(Number.POSITIVE_INFINITY);
    for (const part of this.#raw) this.#out.push(part);
    this.#closeBlocks();
    if (this.#finish === undefined) return;
    const providerMetadata = declined && addMetadata(this.#finish.providerMetadata, declined);
    this.#out.push(providerMetadata ? { ...this.#finish, providerMetadata } : this.#finish);
  }

  #take(part: StreamPart): void {
    if (part.type === "finish") this.#finish = part;
    else if (part.type === "raw") this.#raw.push(part);
    else if (PLAIN.includes(part.type) && !this.#held.length) this.#out.push(part);
    else {
      if (part.type === "text-delta") this.#text += part.delta;
      this.#calls.push(...toCall(part));
      this.#held.push({ part, end: this.#text.length });
      if (part.type === "text-delta" && part.delta) this.#feed(part.delta);
      this.#release(this.#isRedacted ? 0 : this.#shown.length);
    }
  }

  #feed(delta: string): void {
    if (this.#answer === null) {
      this.#answer = this.#openStream(this.#texts);
      this.#showing = this.#show(this.#answer);
      // The pump awaits it and throws the error.
      this.#showing.catch(() => undefined);
    }
    this.#texts.push(delta);
  }

  async #show(answer: AnswerStream): Promise<void> {
    for await (const text of answer) {
      this.#shown += text;
      if (this.#text.startsWith(this.#shown)) this.#release(this.#shown.length);
      else this.#insert(text);
    }
  }

  /** Sends the held parts up to a position of the text; tool calls wait for the whole answer. */
  #release(cleared: number): void {
    const isWhole = cleared === Number.POSITIVE_INFINITY;
    while (this.#held.length) {
      const { part, end } = this.#held[0]!;
      // INVARIANT: no tool call of a refused answer is sent.
      if (!isWhole && part.type.startsWith("tool-")) return;
      if (end > cleared) return this.#split(part, end - cleared);
      this.#held.shift();
      this.#send(part);
    }
  }

  /** Sends the cleared beginning of a text. */
  #split(part: StreamPart, rest: number): void {
    if (part.type !== "text-delta" || part.delta.length <= rest) return;
    const at = part.delta.length - rest;
    this.#send({ ...part, delta: part.delta.slice(0, at) });
    this.#held[0]!.part = { ...part, delta: part.delta.slice(at) };
  }

  #send(part: StreamPart): void {
    if (part.type === "text-start") this.#open.add(part.id);
    else if (part.type === "text-end" && !this.#open.delete(part.id)) return;
    else if (part.type === "text-delta" && this.#isRedacted) return;
    this.#out.push(part);
  }

  /** Sends a text that the model did not write: help lines, words of a refusal, a redaction. */
  #insert(text: string): void {
    const common = this.#isRedacted ? 0 : commonLength(this.#text, this.#shown);
    const own = this.#shown.length - text.length;
    if (!this.#isRedacted) this.#release(common);
    this.#isRedacted = true;
    this.#closeBlocks();
    const id = "demur-text";
    this.#out.push({ type: "text-start", id });
    this.#out.push({ type: "text-delta", id, delta: text.slice(Math.max(common - own, 0)) });
    this.#out.push({ type: "text-end", id });
  }

  #closeBlocks(): void {
    for (const id of this.#open) this.#out.push({ type: "text-end", id });
    this.#open.clear();
  }

  #refuse(refused: RefusedResult, words = refused.text): void {
    this.#held.length = 0;
    this.#closeBlocks();
    const finish = this.#finish;
    const empty = { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
    const outputTokens = { total: undefined, text: undefined, reasoning: undefined };
    const finishReason: FinishReason = { unified: "content-filter", raw: "demur" };
    const end = finish ?? { type: "finish", finishReason, usage: { inputTokens: empty, outputTokens } };
    for (const part of refusedParts(refused, end, words)) this.#out.push(part);
  }
}

function commonLength(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}
