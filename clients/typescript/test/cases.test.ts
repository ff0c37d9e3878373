/** The cases of the spec that are about reading, writing and classifying refusals. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  InconsistentError,
  REASON_CODES,
  REGISTRY,
  UnknownCodeError,
  classify,
  findRefusals,
  formatRefusal,
  isCode,
  isReasonCode,
  obligationsOf,
  parseRefusal,
} from "../src/index.ts";
import type { ReasonCode, Verdict } from "../src/index.ts";
import { ROOT } from "./service.ts";

interface Case {
  readonly [key: string]: unknown;
  readonly note: string;
}

const cases: Record<string, Case[]> = JSON.parse(
  readFileSync(new URL("spec/generated/cases.json", ROOT), "utf8"),
);
const ERRORS = { unknown_code: UnknownCodeError, inconsistent: InconsistentError };
// What the engine, the guards, the store and the linter of registries do is no part of the client.
const OTHER_FILES = ["behaviour", "evolution"];
const OTHER_KEYS = "rules memory decision canonical chain event sound schema_version".split(" ");

const CHECKS: Record<string, (one: Case) => void> = {
  format({ format, want }) {
    const { code, detail } = format as { code: string; detail: string };
    assert.equal(formatRefusal(code, detail), want);
  },
  parse({ parse, want }) {
    assert.deepEqual(parseRefusal(parse as string), want);
  },
  find({ find, want }) {
    const found = findRefusals(find as string);
    assert.deepEqual(found.map(({ code, detail, legacy }) => ({ code, detail, legacy })), want);
  },
  registered({ registered, want }) {
    const entry: Record<string, unknown> = REASON_CODES[registered as ReasonCode];
    for (const [name, value] of Object.entries(want as object)) assert.deepEqual(entry[name], value);
  },
  verdict(one) {
    const { constraints, missing, attempts_left, want } = one as {
      constraints?: string[];
      missing?: string[];
      attempts_left?: boolean;
    } & Case;
    const got = classify(one["verdict"] as Verdict, one["codes"] as string[], {
      ...(constraints && { constraints }),
      ...(missing && { missing }),
      ...(attempts_left === undefined ? {} : { attemptsLeft: attempts_left }),
    });
    const { obligations, ...rest } = want as { obligations?: string[] };
    assert.deepEqual({ ...got }, rest);
    if (obligations) assert.deepEqual(obligationsOf(one["codes"] as string[]), obligations);
  },
};

const contract = Object.entries(cases).filter(([file]) => !OTHER_FILES.includes(file));
for (const one of contract.flatMap(([, rows]) => rows)) {
  if (OTHER_KEYS.some((key) => key in one)) continue;
  const kind = Object.keys(CHECKS).find((key) => key in one);
  const check = kind && CHECKS[kind];
  if (!check) throw new Error(`no check runs the case ${one.note}`);
  test(one.note, () => {
    const error = ERRORS[one["error"] as keyof typeof ERRORS];
    if (error) assert.throws(() => check(one), error);
    else check(one);
  });
}

test("a name that a registry may hold has the form of a code", () => {
  const names = Object.values(cases).flat().filter((one) => "sound" in one);
  assert.ok(names.length > 20);
  // A sound name has the form; what has it may still be unsound, such as a measurement.
  for (const { name, sound } of names) if (sound) assert.ok(isCode(name as string));
});

test("the registry is the one of this version", () => {
  assert.match(REGISTRY, /^reason_codes\.v1@\d+\.\d+\.\d+$/);
  assert.ok(isReasonCode("RCE_RISK"));
  assert.ok(!isReasonCode("toString"));
});
