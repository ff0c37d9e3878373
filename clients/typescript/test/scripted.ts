/** Models that say what a test tells them, for both frameworks. */

import { AIMessage, AIMessageChunk } from "@langchain/core/messages";
import type { BaseMessage } from "@langchain/core/messages";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import type { ChatResult } from "@langchain/core/outputs";
import { MockLanguageModelV4, convertArrayToReadableStream } from "ai/test";
import type { GenerateResult, StreamPart } from "../src/ai-sdk.ts";

/** What a model does: it says a text in pieces, or calls tools. Without both, a filter stops it. */
export interface Turn {
  readonly pieces?: readonly string[];
  readonly calls?: readonly (readonly [string, Record<string, unknown>])[];
}

/** A schema that any arguments fit. */
export const ANYTHING = { type: "object", properties: {}, additionalProperties: true } as const;
const NO_TOKENS = { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 };
const USAGE = { inputTokens: NO_TOKENS, outputTokens: { total: 0, text: 0, reasoning: 0 } };
const FILTERED = { unified: "content-filter", raw: "content_filter" } as const;

let callCount = 0;

function makeCallId(): string {
  callCount += 1;
  return `call-${process.pid}-${callCount}`;
}

function contentOf(turn: Turn): GenerateResult["content"] {
  if (turn.pieces) return [{ type: "text", text: turn.pieces.join("") }];
  return (turn.calls ?? []).map(([toolName, given]) => {
    const input = JSON.stringify(given);
    return { type: "tool-call", toolCallId: makeCallId(), toolName, input };
  });
}

function reasonOf(turn: Turn): GenerateResult["finishReason"] {
  if (turn.calls) return { unified: "tool-calls", raw: undefined };
  return turn.pieces ? { unified: "stop", raw: undefined } : FILTERED;
}

export function partsOf(turn: Turn): StreamPart[] {
  const calls = turn.calls ? (contentOf(turn) as StreamPart[]) : [];
  const deltas = (turn.pieces ?? []).map((delta) => ({ type: "text-delta", id: "1", delta }) as const);
  const text: StreamPart[] = deltas.length
    ? [{ type: "text-start", id: "1" }, ...deltas, { type: "text-end", id: "1" }]
    : [];
  const finish = { type: "finish", finishReason: reasonOf(turn), usage: USAGE } as const;
  return [{ type: "stream-start", warnings: [] }, ...text, ...calls, finish];
}

/** Returns a model of the AI SDK. */
export function mockModel(turns: readonly Turn[]): MockLanguageModelV4 {
  return new MockLanguageModelV4({
    doGenerate: turns.map((turn) => ({
      content: contentOf(turn),
      finishReason: reasonOf(turn),
      usage: USAGE,
      warnings: [],
    })),
    doStream: turns.map((turn) => ({ stream: convertArrayToReadableStream(partsOf(turn)) })),
  });
}

/** A model of LangChain.js; `sent` keeps what it was sent, call by call. */
export class ScriptedModel extends BaseChatModel {
  readonly turns: readonly Turn[];
  readonly sent: BaseMessage[][] = [];

  constructor(turns: readonly Turn[]) {
    super({});
    this.turns = turns;
  }

  _llmType(): string {
    return "scripted";
  }

  override bindTools(tools: unknown[]) {
    return this.withConfig({ tools } as object);
  }

  #next(messages: BaseMessage[]): Turn {
    this.sent.push([...messages]);
    return this.turns[this.sent.length - 1]!;
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const turn = this.#next(messages);
    const text = (turn.pieces ?? []).join("");
    const tool_calls = (turn.calls ?? []).map(([name, args]) => ({ id: makeCallId(), type: "tool_call" as const, name, args }));
    const response_metadata = turn.pieces || turn.calls ? {} : { finish_reason: "content_filter" };
    const message = new AIMessage({ content: text, tool_calls, response_metadata });
    return { generations: [{ text, message }] };
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    _options: unknown,
    manager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const turn = this.#next(messages);
    const chunks = (turn.pieces ?? []).map((content) => new AIMessageChunk({ content }));
    if (turn.calls) {
      const tool_call_chunks = turn.calls.map(([name, args], index) => {
        const written = JSON.stringify(args);
        return { name, args: written, id: makeCallId(), index, type: "tool_call_chunk" as const };
      });
      chunks.push(new AIMessageChunk({ content: "", tool_call_chunks }));
    }
    if (!chunks.length) {
      const response_metadata = { finish_reason: "content_filter" };
      chunks.push(new AIMessageChunk({ content: "", response_metadata }));
    }
    for (const message of chunks) {
      const chunk = new ChatGenerationChunk({ text: message.text, message });
      yield chunk;
      await manager?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk });
    }
  }
}
