/** An answer that is checked while it is written: JSON lines go out, events come back. */

import { failClosed, isObject, readCheckResult } from "./check_result.ts";
import type { CheckResult } from "./check_result.ts";
import { ProblemError, ServiceUnavailableError, isProblem } from "./errors.ts";
import type { EnforceStream } from "./wire.ts";

/** The pieces of an answer as a model writes them. */
export type TextSource = AsyncIterable<string> | Iterable<string>;

type Send = (body: ReadableStream<Uint8Array>, signal: AbortSignal) => Promise<Response>;

interface StreamEvent {
  readonly event: string;
  readonly data: unknown;
}

/**
 * Iterate over it once for the text that may be shown; then `result` is settled. It is never
 * rejected: a stream that breaks is refused. An error of the source is thrown to the reader.
 */
export class AnswerStream implements AsyncIterable<string> {
  readonly result: Promise<CheckResult>;
  readonly #source: AsyncIterator<string> | Iterator<string>;
  readonly #check: Omit<EnforceStream, "text">;
  readonly #send: Send;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #controller = new AbortController();
  #settle!: (result: CheckResult) => void;
  #sourceError: { readonly error: unknown } | null = null;
  #isRead = false;
  #pauses = 1;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    source: TextSource,
    check: Omit<EnforceStream, "text">,
    send: Send,
    timeoutMs: number,
    signal?: AbortSignal,
  ) {
    this.#source =
      Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
    this.#check = check;
    this.#send = send;
    this.#timeoutMs = timeoutMs;
    this.#signal = signal;
    this.result = new Promise((settle) => {
      this.#settle = settle;
    });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    if (this.#isRead) throw new TypeError("a stream of an answer can be read only once");
    this.#isRead = true;
    let result: CheckResult | null = null;
    let isShown = false;
    let failure: unknown = new ServiceUnavailableError("the stream of the answer broke off");
    const abort = (): void => this.#controller.abort(this.#signal?.reason);
    this.#signal?.addEventListener("abort", abort, { once: true });
    if (this.#signal?.aborted) abort();
    try {
      this.#resumeTimer();
      const response = await this.#send(this.#writeLines(), this.#controller.signal);
      for await (const { event, data } of readEvents(response)) {
        this.#pauseTimer();
        if (event === "text" && isObject(data) && typeof data["text"] === "string") {
          isShown = true;
          yield data["text"];
        } else if (event === "problem" && isProblem(data)) throw new ProblemError(data);
        else if (event === "result") result = readCheckResult(data);
        if (result !== null) break;
        this.#resumeTimer();
      }
    } catch (error) {
      failure = error;
    } finally {
      this.#pauseTimer();
      this.#signal?.removeEventListener("abort", abort);
      this.#controller.abort();
      this.#closeSource();
      // INVARIANT: without a result that allows, the answer is refused.
      this.#settle(result ?? failClosed("output", failure));
    }
    if (result !== null) return;
    if (this.#sourceError !== null) throw this.#sourceError.error;
    this.#signal?.throwIfAborted();
    yield `${isShown ? "\n\n" : ""}${failClosed("output", failure).text}`;
  }

  /** Returns the body: the options, then a line for each piece that the source gives. */
  #writeLines(): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    const encode = (line: object): Uint8Array => encoder.encode(`${JSON.stringify(line)}\n`);
    return new ReadableStream<Uint8Array>({
      start: (lines) => lines.enqueue(encode(this.#check)),
      pull: async (lines) => {
        try {
          this.#pauseTimer();
          const next = await this.#source.next();
          this.#resumeTimer();
          if (next.done) lines.close();
          else lines.enqueue(encode({ text: next.value }));
        } catch (error) {
          this.#sourceError = { error };
          this.#controller.abort(error);
          lines.error(error);
        }
      },
    });
  }

  /** Tells the source to stop, without waiting: a model that hangs may never do so. */
  #closeSource(): void {
    Promise.resolve(this.#source.return?.()).catch(() => undefined);
  }

  /** Stops the clock: model and reader may take their time, only the service is timed. */
  #pauseTimer(): void {
    this.#pauses += 1;
    clearTimeout(this.#timer);
  }

  #resumeTimer(): void {
    this.#pauses -= 1;
    if (this.#pauses > 0 || this.#controller.signal.aborted) return;
    const late = new DOMException("the guard service did not answer in time", "TimeoutError");
    this.#timer = setTimeout(() => this.#controller.abort(late), this.#timeoutMs);
  }
}

/** Yields the server-sent events of a response. */
async function* readEvents(response: Response): AsyncGenerator<StreamEvent> {
  if (response.body === null) return;
  const decoder = new TextDecoder();
  let pending = "";
  for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
    pending += decoder.decode(part, { stream: true });
    const blocks = pending.split("\n\n");
    pending = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = readEvent(block);
      if (event !== null) yield event;
    }
  }
}

function readEvent(block: string): StreamEvent | null {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).trimStart());
  }
  const event = fields.get("event");
  const data = fields.get("data");
  return event === undefined || data === undefined ? null : { event, data: JSON.parse(data) };
}
