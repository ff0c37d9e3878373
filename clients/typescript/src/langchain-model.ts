/**
 * Guard the answer of one model call of LangChain.js, before any listener of the run sees it.
 *
 * A guarded copy of the model filters the chunks of a stream, and checks a whole answer before it
 * returns it. Other runnables are checked after they returned.
 */

import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { AIMessage, AIMessageChunk } from "@langchain/core/messages";
import type { BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import type { ChatResult } from "@langchain/core/outputs";
import type { CheckResult, RefusedResult } from "./check_result.ts";
import { isObject } from "./check_result.ts";
import { changedOr, listTexts, readErrorBody } from "./guard_kit.ts";
import { addResources, answerFor, withContent } from "./langchain.ts";
import type { AnswerChecks } from "./langchain.ts";

type ModelOptions = BaseChatModel["ParsedCallOptions"];
type Chunks = AsyncGenerator<ChatGenerationChunk>;

/** Watches one model call, and keeps the result of its check. */
export class ModelWatch {
  readonly #checks: AnswerChecks;
  // The text that was checked, and the result.
  #checked: { readonly text: string; readonly result: CheckResult } | null = null;

  #hasStreamed = false;

  constructor(checks: AnswerChecks) {
    this.#checks = checks;
  }

  /** What to tell the model so that it answers once more; empty if it may not. */
  get reask(): string {
    return this.#hasStreamed ? "" : (this.#checked?.result.reask ?? "");
  }

  /** Returns a copy of the model whose answers are checked; any other runnable unchanged. */
  async wrapModel(model: unknown): Promise<unknown> {
    const configurable = model as { _getModelInstance?: () => Promise<unknown> };
    const isConfigurable = typeof configurable._getModelInstance === "function";
    return this.#wrap(isConfigurable ? await configurable._getModelInstance!() : model);
  }

  /** Checks what the model returned, if it was not checked yet, and how it refused. */
  async checkAnswer(answer: AIMessage): Promise<AIMessage> {
    const text = readText(answer);
    const known = this.#checked?.text === text ? this.#checked.result : null;
    if (known !== null && !known.allowed) return answerFor(known, answer.id);
    const filtered = await this.#readRefusal(answer);
    if (filtered !== null) return answerFor(filtered, answer.id);
    const result = known ?? (text ? await this.#check(text) : null);
    if (result !== null && known === null) this.#checked = { text, result };
    if (result !== null && !result.allowed) return answerFor(result, answer.id);
    const isChanged = known === null && result !== null && result.changed !== null;
    if (isChanged) answer = withContent(answer, result.changed);
    const declined = answer.tool_calls?.length ? null : await this.#readProse(readText(answer));
    if (declined !== null) {
      answer.response_metadata = { ...answer.response_metadata, refusal: declined.envelope };
      answer.additional_kwargs = { ...answer.additional_kwargs, refusal: declined.line };
    }
    return addResources(answer, result?.resources ?? []);
  }

  /** Checks an answer in a form that the agent asked for, which comes with its messages. */
  async checkStructured<Answer>(answer: Answer): Promise<Answer | AIMessage> {
    const structured: unknown = isObject(answer) ? answer["structuredResponse"] : undefined;
    if (structured === undefined) return answer;
    const { client, context, prompt, options } = this.#checks;
    const check = { ...context, text: JSON.stringify(structured), prompt };
    const result = await client.checkAnswer(check, options);
    return result.allowed ? answer : answerFor(result);
  }

  /** Returns the refusal behind an error: of the answer, or of a provider; null if there is none. */
  async readError(error: unknown): Promise<AIMessage | null> {
    // Words of a refusal are no answer in the form that the agent asked for.
    if (this.#checked !== null && !this.#checked.result.allowed) return answerFor(this.#checked.result);
    const response = readErrorBody(error);
    if (response === null) return null;
    const { client, context, prompt, options } = this.#checks;
    const result = await client.readRefusal({ ...context, response, prompt }, options);
    return result.allowed || result.error ? null : answerFor(result);
  }

  #wrap(model: unknown): unknown {
    if (model instanceof BaseChatModel) return this.#guardModel(model);
    const { bound } = model as { bound?: unknown };
    if (bound === undefined) return model;
    return Object.assign(Object.create(model as object) as object, { bound: this.#wrap(bound) });
  }

  #guardModel(model: BaseChatModel): BaseChatModel {
    const copy = Object.create(model) as BaseChatModel;
    // The model's own methods run on the model, which may have private fields.
    const own: Record<string, unknown> = {
      _generate: async (messages: BaseMessage[], options: ModelOptions, manager?: CallbackManagerForLLMRun) =>
        this.#checkResult(await model._generate(messages, options, manager)),
      _streamChatModelEvents: BaseChatModel.prototype._streamChatModelEvents,
    };
    if (model.bindTools) {
      const bindTools = model.bindTools.bind(model);
      // Some models bind tools to a new model, which has to be guarded as well.
      own["bindTools"] = (...given: Parameters<typeof bindTools>) => this.#wrap(bindTools(...given));
    }
    if (model._streamResponseChunks !== BaseChatModel.prototype._streamResponseChunks) {
      own["_streamResponseChunks"] = (
        messages: BaseMessage[],
        options: ModelOptions,
        manager?: CallbackManagerForLLMRun,
      ) => this.#filterChunks(model._streamResponseChunks(messages, options), manager);
    }
    for (const [name, value] of Object.entries(own)) {
      Object.defineProperty(copy, name, { value, configurable: true, writable: true });
    }
    return copy;
  }

  async #checkResult(given: ChatResult): Promise<ChatResult> {
    const generation = given.generations[0];
    const text = generation ? readText(generation.message) : "";
    if (generation === undefined || !text) return given;
    const result = await this.#check(text);
    this.#checked = { text, result };
    const shown = result.allowed ? changedOr(result, text) : result.text;
    if (shown === text) return { ...given, generations: [generation] };
    const { id } = generation.message;
    const message = result.allowed ? withContent(generation.message as AIMessage, shown) : answerFor(result, id);
    this.#checked = { text: shown, result };
    return { ...given, generations: [{ ...generation, text: shown, message }] };
  }

  /** Yields chunks with the text that may be shown, and reports them to the listeners. */
  async *#filterChunks(chunks: Chunks, manager?: CallbackManagerForLLMRun): Chunks {
    const { client, context, prompt, options } = this.#checks;
    const withheld: ChatGenerationChunk[] = [];
    let received = "";
    const source = async function* (): AsyncGenerator<string> {
      for await (const chunk of chunks) {
        const text = readText(chunk.message);
        received += text;
        withheld.push(text ? withText(chunk, "") : chunk);
        if (text) yield text;
      }
    };
    const report = async (chunk: ChatGenerationChunk): Promise<ChatGenerationChunk> => {
      await manager?.handleLLMNewToken(chunk.text, { prompt: 0, completion: 0 }, undefined, undefined, undefined, {
        chunk,
      });
      return chunk;
    };
    const answer = client.streamAnswer(source(), { ...context, prompt, changes: true }, options);
    let shown = "";
    for await (const text of answer) {
      shown += text;
      // Chunks that came with the text go ahead of it, but for those of tool calls.
      while (withheld.length && !hasCalls(withheld[0]!)) yield report(withheld.shift()!);
      yield report(new ChatGenerationChunk({ text, message: new AIMessageChunk({ content: text }) }));
    }
    const result = await answer.result;
    this.#hasStreamed = true;
    if (received) this.#checked = { text: shown, result };
    // INVARIANT: no tool call of a refused answer is sent.
    for (const chunk of result.allowed || !received ? withheld : []) yield report(chunk);
  }

  #check(text: string): Promise<CheckResult> {
    const { client, context, prompt, options } = this.#checks;
    return client.checkAnswer({ ...context, text, prompt, changes: true }, options);
  }

  /** Returns the refusal of a provider, as the metadata of its answer say it. */
  async #readRefusal(answer: AIMessage): Promise<RefusedResult | null> {
    const { client, context, prompt, options } = this.#checks;
    const metadata: Readonly<Record<string, unknown>> = answer.response_metadata;
    const { finish_reason, finishReason, stop_reason } = metadata;
    const refusal = answer.additional_kwargs["refusal"];
    const reason = finish_reason ?? finishReason ?? stop_reason;
    if (!refusal && (typeof reason !== "string" || ORDINARY.includes(reason.toLowerCase()))) return null;
    const message = { role: "assistant", content: readText(answer), ...(refusal ? { refusal } : {}) };
    const choices = [{ index: 0, finish_reason: reason ?? "stop", message }];
    const response =
      stop_reason === undefined
        ? { object: "chat.completion", choices }
        : { type: "message", role: "assistant", ...metadata, content: [] };
    const result = await client.readRefusal({ ...context, response, prompt }, options);
    return result.allowed ? null : result;
  }

  /** Returns the refusal of a model that declined in its own words. */
  async #readProse(text: string): Promise<RefusedResult | null> {
    if (text.trim() === "") return null;
    const { client, context, prompt, options } = this.#checks;
    const result = await client.readRefusal({ ...context, text, prompt }, options);
    return result.allowed ? null : result;
  }
}

// Reasons to stop that refuse nothing; the service reads all others.
const ORDINARY = ["stop", "length", "tool_calls", "function_call", "end_turn", "max_tokens", "tool_use", "stop_sequence"];

function readText(message: BaseMessage): string {
  return listTexts(message.content).join("");
}

function hasCalls(chunk: ChatGenerationChunk): boolean {
  const { message } = chunk;
  return AIMessageChunk.isInstance(message) && Boolean(message.tool_call_chunks?.length);
}

/** Returns a chunk with everything but its text. */
function withText(chunk: ChatGenerationChunk, text: string): ChatGenerationChunk {
  const { content } = chunk.message;
  const rest = typeof content === "string" ? text : content.filter((part) => part.type !== "text");
  const message = new AIMessageChunk({ ...(chunk.message.lc_kwargs as object), content: rest as string });
  return new ChatGenerationChunk({ ...chunk, text, message });
}
