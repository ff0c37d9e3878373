/** The functions of this package agree with those of a running service, on texts made to differ. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DemurClient, LEGACY_PHRASES, findRefusals, formatRefusal, parseRefusal } from "../src/index.ts";
import type { FoundRefusal, ParsedLine } from "../src/index.ts";
import { PATIENCE_MS, startService } from "./service.ts";
import type { Service } from "./service.ts";

const TEXTS = 400;
const PARTS = [
  ...["REFUSED:", "REFUSED: ", "refused: ", "ECONNREFUSED: ", "REFUSED: RCE_RISK: ", "RATE_LIMIT"],
  ...["acme.com/KYC_EXPIRED: ", "OLD_FRAUD_BLOCK", "toString", "__proto__"],
  ...[": ", ":", " ", "  ", "\t", "\r\n", "\n", "\x85", "\u2028"],
  ...["\\", "\\\\", "\\u000a", "\\\\u2028", "u0009", "\\ud83d", "\x00", "\x1b[1;31m", "\x1b[0m"],
  ...["é", "ß", "ſ", "\u212a", "ﬁ", "İ", "ı", "Σ", "ς", "ꭰ", "🗑", "٣", "Ⓐ", "_", "\u00a0", "\x1c", "\ufeff"],
  ...["no ", "not ", "never ", "without ", ": none", "s: false,", "=0}", "' : null", "?"],
];

let service: Service;
let client: DemurClient;
before(async () => {
  service = await startService();
  client = new DemurClient({ url: service.url, timeoutMs: PATIENCE_MS });
});
after(() => service.close());

/** Returns numbers from 0 to below 1, always the same ones. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function* makeTexts(): Generator<string> {
  const next = random(7);
  const choose = <Item>(items: readonly Item[]): Item => items[Math.floor(next() * items.length)] as Item;
  const phrases = Object.keys(LEGACY_PHRASES);
  for (let index = 0; index < TEXTS; index += 1) {
    const parts = Array.from({ length: 1 + Math.floor(next() * 8) }, () => {
      if (next() > 0.3) return choose(PARTS);
      const phrase = choose(phrases);
      return next() > 0.5 ? phrase : phrase.toUpperCase().replaceAll(" ", choose([" ", "  ", "\t"]));
    });
    yield parts.join("");
  }
}

/** Returns a refusal without its place: Python counts characters, JavaScript UTF-16 units. */
function withoutPlace(one: FoundRefusal | ParsedLine): object {
  // Lone surrogates of a detail stay escaped in the answer, because no JSON in UTF-8 holds them.
  const detail = one.detail.replace(/\p{Surrogate}/gu, (unit) => `\\u${unit.charCodeAt(0).toString(16)}`);
  return { code: one.code, detail, legacy: one.legacy };
}

test("texts are read as Python reads them", async () => {
  let refusals = 0;
  for (const text of makeTexts()) {
    const answer = await client.parse({ text });
    const parsed = parseRefusal(text);
    const whole = parsed && withoutPlace({ ...parsed, start: 0, end: 0, legacy: false });
    const theirs = answer.refusal && withoutPlace({ ...answer.refusal, legacy: false });
    assert.deepEqual(whole, theirs, JSON.stringify(text));
    const found = findRefusals(text);
    assert.deepEqual(found.map(withoutPlace), answer.found.map(withoutPlace), JSON.stringify(text));
    refusals += found.length;
  }
  assert.ok(refusals > TEXTS / 10, `only ${refusals} refusals`);
});

test("details are written as Python writes them, and read back", async () => {
  for (const detail of makeTexts()) {
    const { line } = await client.format({ code: "RCE_RISK", detail });
    assert.equal(formatRefusal("RCE_RISK", detail), line, JSON.stringify(detail));
    assert.deepEqual(parseRefusal(line), { code: "RCE_RISK", detail });
  }
});
