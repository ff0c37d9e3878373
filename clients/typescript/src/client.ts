/** A client of the demur service. A check that cannot be made is a refusal, never a permission. */

import { AnswerStream } from "./answer_stream.ts";
import type { TextSource } from "./answer_stream.ts";
import { failClosed, isObject, readCheckResult } from "./check_result.ts";
import type { CheckResult } from "./check_result.ts";
import { ProblemError, ServiceUnavailableError, isProblem, toDemurError } from "./errors.ts";
import type { Surface } from "./reason_codes.ts";
import type {
  Decide,
  DecisionRecord,
  Detect,
  EnforceAnswer,
  EnforceCompaction,
  EnforceModel,
  EnforcePrompt,
  EnforceRetrieval,
  EnforceStream,
  EnforceToolCall,
  EnforceToolResult,
  FormatInput,
  ParseInput,
  ParsedText,
  RefusalDetection,
  RefusalLine,
  Resolve,
} from "./wire.ts";

export interface ClientOptions {
  /** The address of the service. */
  readonly url?: string | URL;
  /** The key that `demur keys create` makes. A service on a loopback address may need none. */
  readonly apiKey?: string;
  /** How long to wait for an answer, in milliseconds. */
  readonly timeoutMs?: number;
  /** The function that makes calls, if it is not the global one. */
  readonly fetch?: typeof fetch;
}

export interface CallOptions {
  /** Aborting it ends the call; the promise is then rejected with its reason. */
  readonly signal?: AbortSignal;
}

const DEFAULT_URL = "http://127.0.0.1:8642";
const DEFAULT_TIMEOUT_MS = 10_000;

/**
 * Asks a demur service.
 *
 * The checks never fail: without a verdict, their result is a refusal with `decided` false, whose
 * `error` says why. The other calls throw a `DemurError`.
 */
export class DemurClient {
  readonly timeoutMs: number;
  readonly #base: string;
  readonly #apiKey: string | undefined;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    const url = new URL(options.url ?? DEFAULT_URL);
    this.#base = url.href.replace(/\/+$/, "");
    this.#apiKey = options.apiKey;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  }

  /** Checks a prompt before it reaches a model. */
  checkPrompt(check: EnforcePrompt, options?: CallOptions): Promise<CheckResult> {
    return this.#check("input", "prompt", check, options);
  }

  /** Checks the answer of a model before a person sees it. */
  checkAnswer(check: EnforceAnswer, options?: CallOptions): Promise<CheckResult> {
    return this.#check("output", "answer", check, options);
  }

  /** Reads whether a model refused: from the provider's response or error, or in its prose. */
  readRefusal(check: EnforceModel, options?: CallOptions): Promise<CheckResult> {
    return this.#check("model", "model", check, options);
  }

  /** Checks a tool call before it runs: arguments, commands, loops and policy. */
  checkToolCall(check: EnforceToolCall, options?: CallOptions): Promise<CheckResult> {
    return this.#check("tool_call", "tool_call", check, options);
  }

  /** Checks the result of a tool before a model reads it. */
  checkToolResult(check: EnforceToolResult, options?: CallOptions): Promise<CheckResult> {
    return this.#check("tool_result", "tool_result", check, options);
  }

  /** Checks a retrieved passage before a model reads it. */
  checkRetrieval(check: EnforceRetrieval, options?: CallOptions): Promise<CheckResult> {
    return this.#check("retrieval", "retrieval", check, options);
  }

  /** Checks that a compaction of a context loses no pinned rule. */
  checkCompaction(check: EnforceCompaction, options?: CallOptions): Promise<CheckResult> {
    return this.#check("compaction", "compaction", check, options);
  }

  /**
   * Checks an answer while a model writes it. Iterate over the stream for the text that may be
   * shown: the last text of a refused answer is what to say instead. Then await `result`.
   */
  streamAnswer(
    source: TextSource,
    check: Omit<EnforceStream, "text"> = {},
    options: CallOptions = {},
  ): AnswerStream {
    const send = async (body: ReadableStream<Uint8Array>, signal: AbortSignal) =>
      requireSuccess(
        // A body that is a stream needs `duplex`, which not every declaration of fetch names.
        await this.#send("POST", "/v1/enforce/answer/stream", "application/x-ndjson", {
          body,
          signal,
          duplex: "half",
        } as RequestInit),
      );
    return new AnswerStream(source, check, send, this.timeoutMs, options.signal);
  }

  /** Decides a request by policy, and stores the decision. */
  decide(body: Decide, options?: CallOptions): Promise<DecisionRecord> {
    return this.#ask("/v1/decide", body, ["decision_id", "verdict"], options);
  }

  /** Resolves a decision with grants and accepted constraints. */
  resolve(decisionId: string, body: Resolve, options?: CallOptions): Promise<DecisionRecord> {
    const path = `/v1/decisions/${encodeURIComponent(decisionId)}/resolve`;
    return this.#ask(path, body, ["decision_id", "verdict"], options);
  }

  /** Detects whether an answer in plain prose refuses. */
  detect(body: Detect, options?: CallOptions): Promise<RefusalDetection> {
    return this.#ask("/v1/detect", body, ["kind"], options);
  }

  /** Reads the refusals in a text, with the codes of the service's registry. */
  parse(body: ParseInput, options?: CallOptions): Promise<ParsedText> {
    return this.#ask("/v1/parse", body, ["refusal", "found"], options);
  }

  /** Writes a refusal line, with the codes of the service's registry. */
  format(body: FormatInput, options?: CallOptions): Promise<RefusalLine> {
    return this.#ask("/v1/format", body, ["line"], options);
  }

  async #check(
    surface: Surface,
    route: string,
    body: object,
    options: CallOptions = {},
  ): Promise<CheckResult> {
    try {
      const result = readCheckResult(await this.#post(`/v1/enforce/${route}`, body, options));
      if (result === null) throw unusable();
      return result;
    } catch (error) {
      options.signal?.throwIfAborted();
      return failClosed(surface, error);
    }
  }

  async #ask<Answer>(
    path: string,
    body: object,
    members: readonly string[],
    options: CallOptions = {},
  ): Promise<Answer> {
    try {
      const answer = await this.#post(path, body, options);
      if (!isObject(answer) || !members.every((one) => Object.hasOwn(answer, one))) throw unusable();
      return answer as Answer;
    } catch (error) {
      options.signal?.throwIfAborted();
      throw toDemurError(error);
    }
  }

  async #post(path: string, body: object, { signal }: CallOptions): Promise<unknown> {
    const late = AbortSignal.timeout(this.timeoutMs);
    const response = await requireSuccess(
      await this.#send("POST", path, "application/json", {
        body: JSON.stringify(body),
        signal: signal ? AbortSignal.any([signal, late]) : late,
      }),
    );
    return response.json();
  }

  #send(method: string, path: string, type: string, init: RequestInit): Promise<Response> {
    const headers: Record<string, string> = { "content-type": type };
    if (this.#apiKey !== undefined) headers["authorization"] = `Bearer ${this.#apiKey}`;
    // A redirect would hand the key and the text to another address.
    return this.#fetch(`${this.#base}${path}`, { ...init, method, headers, redirect: "error" });
  }
}

function unusable(): ServiceUnavailableError {
  return new ServiceUnavailableError("the answer of the guard service cannot be read");
}

/**
 * Returns a response that succeeded.
 *
 * @throws ProblemError The service answered with problem details.
 * @throws ServiceUnavailableError It answered with something else.
 */
async function requireSuccess(response: Response): Promise<Response> {
  if (response.status === 200) return response;
  const problem: unknown = await response.json().catch(() => null);
  if (!isProblem(problem)) {
    throw new ServiceUnavailableError(`the guard service answered with status ${response.status}`);
  }
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  throw new ProblemError(problem, Number.isFinite(seconds) ? seconds : null);
}
