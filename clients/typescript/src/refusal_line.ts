/**
 * The refusal line `REFUSED: CODE: detail`: write it, parse it, and find it in logs.
 *
 * The same rules as in Python, held to the same cases. Positions are indices into the string.
 */

import { LEGACY_PHRASES, REASON_CODES, REGISTRY } from "./reason_codes.ts";
import type { AnyReasonCode, ReasonCode, ReasonCodeInfo } from "./reason_codes.ts";

/** A registry: this one, or a module that `demur codes export --to typescript` writes. */
export interface CodeRegistry {
  readonly REGISTRY: string;
  readonly REASON_CODES: { readonly [code: string]: ReasonCodeInfo };
  readonly LEGACY_PHRASES: { readonly [phrase: string]: string };
}

/** The registry of the core. */
export const CORE: CodeRegistry = { REGISTRY, REASON_CODES, LEGACY_PHRASES };

/** The codes of the core, deprecated ones included. */
export const KNOWN_CODES: ReadonlySet<ReasonCode> = new Set(
  Object.keys(REASON_CODES) as ReasonCode[],
);

export interface RegistryOption {
  /** The codes that are known: those of the core by default. */
  readonly registry?: CodeRegistry;
}

/** A code is not registered. */
export class UnknownCodeError extends Error {
  override readonly name = "UnknownCodeError";
  readonly code: string;

  constructor(code: string) {
    super(`unknown reason code \`${code}\``);
    this.code = code;
  }
}

/** The code and the detail of a refusal line. */
export interface ParsedRefusal {
  readonly code: AnyReasonCode;
  readonly detail: string;
}

/** A refusal in a text: `text.slice(start, end)` is the line from its marker, or the whole line. */
export interface FoundRefusal extends ParsedRefusal {
  readonly start: number;
  readonly end: number;
  /** A legacy phrase named the code. */
  readonly legacy: boolean;
}

const MARK = "REFUSED:";
const PREFIX = `${MARK} `;

// Controls (C0, DEL, C1), the two Unicode line separators and lone surrogates.
const UNSAFE = "\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff";
const TAIL = "u(?:00[01][0-9a-f]|007f|00[89][0-9a-f]|202[89]|d[89a-f][0-9a-f]{2})";
const RUN = "(?<!\\\\)\\\\+";
const TO_ESCAPE = new RegExp(`${RUN}(?=[${UNSAFE}]|${TAIL})|[${UNSAFE}]`, "gu");
const TO_RESTORE = new RegExp(`(${RUN})(${TAIL})`, "gu");
const LINE_BREAK = /[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]/;
const LINE = /[^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+/g;
const NEWLINE_AT_END = /(?:\r\n|[\n\r])$/;
const COLOUR_AT_END = /\x1b\[[0-9;]*m$/;
const COLOURS_AT_END = /(?:\x1b\[[0-9;]*m)+$/;
const WORD_AT_END = /[\p{L}\p{N}_]$/u;
const CODE = /^[A-Z][A-Z0-9_]{0,61}[A-Z0-9]$/;
const DOMAIN = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$/;
const MAX_DOMAIN = 253;

/**
 * Returns the refusal line of a code and a detail.
 *
 * @throws UnknownCodeError The code is not registered.
 */
export function formatRefusal(
  code: AnyReasonCode,
  detail = "",
  { registry = CORE }: RegistryOption = {},
): string {
  requireCode(code, registry);
  return `${PREFIX}${code}: ${escapeDetail(detail)}`;
}

/**
 * Returns the code and detail of the refusal in a text, or null if there is none.
 *
 * In a text without a marker, a legacy phrase names the code, and the whole text is the detail.
 */
export function parseRefusal(
  text: string,
  { registry = CORE }: RegistryOption = {},
): ParsedRefusal | null {
  if (text.startsWith(PREFIX)) return parseCanonical(text, registry);
  if (!findMarkers(text).next().done) return null;
  const code = codeOfPhrase(text, registry);
  return code === null ? null : { code, detail: text };
}

/** Returns the refusals in a text, at most one a line, in order. */
export function findRefusals(text: string, { registry = CORE }: RegistryOption = {}): FoundRefusal[] {
  const found: FoundRefusal[] = [];
  for (const line of text.matchAll(LINE)) {
    const refusal = findInLine(line[0], line.index, registry);
    if (refusal !== null) found.push(refusal);
  }
  return found;
}

/** Tells whether a text has the form of a code, `CODE` or `domain/CODE`, registered or not. */
export function isCode(text: string): boolean {
  const slash = text.lastIndexOf("/");
  if (slash < 0) return CODE.test(text);
  const domain = text.slice(0, slash);
  const isDomain = domain === "x-local" || (domain.length <= MAX_DOMAIN && DOMAIN.test(domain));
  return isDomain && CODE.test(text.slice(slash + 1));
}

/** Returns what a registry says about a code, or undefined. */
export function findCode(code: string, registry: CodeRegistry): ReasonCodeInfo | undefined {
  return Object.hasOwn(registry.REASON_CODES, code) ? registry.REASON_CODES[code] : undefined;
}

/** Returns what a registry says about a code. */
export function requireCode(code: string, registry: CodeRegistry): ReasonCodeInfo {
  const info = findCode(code, registry);
  if (info === undefined) throw new UnknownCodeError(code);
  return info;
}

function escapeDetail(detail: string): string {
  return detail.replace(TO_ESCAPE, (found) =>
    found.startsWith("\\") ? found + found : `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function unescapeDetail(detail: string): string {
  return detail.replace(TO_RESTORE, (_, backslashes: string, tail: string) => {
    const half = backslashes.slice(0, Math.floor(backslashes.length / 2));
    return half + (backslashes.length % 2 ? String.fromCharCode(parseInt(tail.slice(1), 16)) : tail);
  });
}

function parseCanonical(text: string, registry: CodeRegistry): ParsedRefusal | null {
  const line = text.replace(NEWLINE_AT_END, "");
  if (LINE_BREAK.test(line)) return null;
  const colon = line.indexOf(":", PREFIX.length);
  const code = line.slice(PREFIX.length, colon < 0 ? undefined : colon);
  const rest = colon < 0 ? "" : line.slice(colon + 1);
  if (rest !== "" && !rest.startsWith(" ")) return null;
  if (findCode(code, registry) === undefined) return null;
  return { code, detail: unescapeDetail(rest.slice(1)) };
}

/** Yields each position of the marker at the start of a word. */
function* findMarkers(line: string): Generator<number> {
  for (let start = line.indexOf(MARK); start >= 0; start = line.indexOf(MARK, start + 1)) {
    const before = line.slice(Math.max(start - 20, 0), start);
    // A terminal's colour code ends in a letter, but is not part of a word.
    if (!WORD_AT_END.test(before) || COLOUR_AT_END.test(before)) yield start;
  }
}

function findInLine(whole: string, offset: number, registry: CodeRegistry): FoundRefusal | null {
  // The escape sequence that ends a coloured line is not part of its text.
  const line = whole.includes("\x1b") ? whole.replace(COLOURS_AT_END, "") : whole;
  const end = offset + line.length;
  let isMarked = false;
  for (const start of findMarkers(line)) {
    isMarked = true;
    const claim = parseClaim(line, start);
    if (claim !== null) {
      if (findCode(claim.code, registry) === undefined) return null;
      return { ...claim, start: offset + start, end, legacy: false };
    }
    if (start === 0) return null;
  }
  const code = isMarked ? null : codeOfPhrase(line, registry);
  return code === null ? null : { code, detail: line, start: offset, end, legacy: true };
}

/** Returns the code and detail after the marker at `start`, if the code is well formed. */
function parseClaim(line: string, start: number): ParsedRefusal | null {
  const begin = start + PREFIX.length;
  if (!line.startsWith(PREFIX, start)) return null;
  const colon = line.indexOf(":", begin);
  const code = line.slice(begin, colon < 0 ? undefined : colon);
  if (!isCode(code)) return null;
  if (colon >= 0 && ![undefined, " "].includes(line[colon + 1])) return null;
  return { code, detail: colon < 0 ? "" : unescapeDetail(line.slice(colon + 2)) };
}

// `no loop detected` and `loop detected: none` say that nothing was refused.
const SPACE =
  "[ \\t\\n\\v\\f\\r\\x1c-\\x1f\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const DENIAL_BEFORE = /(?:^|[^a-z0-9])(?:no|not|never|without) $/;
const DENIAL_AFTER = new RegExp(
  `^s?["']?${SPACE}*[:=]${SPACE}*(?:no|none|null|false|0)(?=${SPACE}*(?:$|[,;)\\]}]))`,
);
const MAX_DENIAL_BEFORE = 12;
const MAX_DENIAL_AFTER = 40;
const SPACES = /[ \t]{2,}|\t/g;
const NOT_ASCII = /[^\x00-\x7f]/gu;
const CHEROKEE = /[\u13a0-\u13ff\uab70-\uabbf]/;

interface Phrase {
  readonly text: string;
  readonly code: string;
}
const rankedPhrases = new WeakMap<CodeRegistry["LEGACY_PHRASES"], readonly Phrase[]>();

/** Returns the code of the legacy phrase in a text, or null: the longest wins, ties by code. */
function codeOfPhrase(text: string, registry: CodeRegistry): string | null {
  const folded = foldPhrase(text);
  const phrases = rankPhrases(registry.LEGACY_PHRASES);
  return phrases.find((phrase) => holdsPhrase(folded, phrase.text))?.code ?? null;
}

function rankPhrases(phrases: CodeRegistry["LEGACY_PHRASES"]): readonly Phrase[] {
  let ranked = rankedPhrases.get(phrases);
  if (ranked === undefined) {
    const order = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
    ranked = Object.entries(phrases)
      .map(([text, code]) => ({ text, code, length: [...text].length }))
      .sort((a, b) => b.length - a.length || order(a.code, b.code) || order(a.text, b.text));
    rankedPhrases.set(phrases, ranked);
  }
  return ranked;
}

/** Returns a text as phrases are compared: case folded, with one space for a run of spaces. */
function foldPhrase(text: string): string {
  return text
    .replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
    .replace(NOT_ASCII, foldCharacter)
    .replace(SPACES, " ");
}

/** Returns the full case folding of one character, which JavaScript lacks. */
function foldCharacter(character: string): string {
  if (CHEROKEE.test(character)) return character.toUpperCase();
  if (character === "\u0131") return character;
  return character === "\u1e9e" ? "ss" : character.toUpperCase().toLowerCase();
}

/** Tells whether a folded text holds a phrase that it does not deny. */
function holdsPhrase(folded: string, phrase: string): boolean {
  for (let start = folded.indexOf(phrase); start >= 0; ) {
    const end = start + phrase.length;
    const before = folded.slice(Math.max(start - MAX_DENIAL_BEFORE, 0), start);
    const after = folded.slice(end, end + MAX_DENIAL_AFTER);
    if (!DENIAL_BEFORE.test(before) && !DENIAL_AFTER.test(after)) return true;
    start = folded.indexOf(phrase, end);
  }
  return false;
}
