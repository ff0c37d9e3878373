/** The result of a check: whether it is allowed, and if not, why. */

import { DemurError, toDemurError, undecidedCode } from "./errors.ts";
import type { Surface } from "./reason_codes.ts";
import { UNDECIDED_WORDS } from "./wire.ts";
import type { Enforced, JsonObject, Outcome, Refusal } from "./wire.ts";

type Words = Omit<Enforced, "allowed" | "outcome" | "envelope">;

/** The action may run, within the `constraints` if there are any. */
export interface AllowedResult extends Words {
  readonly allowed: true;
  readonly outcome: "allowed" | "allowed_with_limits";
  readonly envelope: Readonly<Record<string, never>>;
}

/** The action must not run; the envelope says why, and what to do next. */
export interface RefusedResult extends Words {
  readonly allowed: false;
  readonly outcome: "needs_something" | "refused" | "could_not_judge";
  readonly envelope: Refusal;
  /** Why the service gave no verdict, if it gave none. */
  readonly error?: DemurError;
}

/** The result of a check. Branch on `allowed`; then the envelope has its type. */
export type CheckResult = AllowedResult | RefusedResult;

/** Something was refused. `message` is the refusal line. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly result: RefusedResult;

  constructor(result: RefusedResult) {
    super(result.line);
    this.result = result;
  }

  /** The refusal as plain JSON. */
  get envelope(): Refusal {
    return this.result.envelope;
  }
}

/**
 * Returns a result that allows.
 *
 * @throws Refused It does not allow.
 */
export function requireAllowed(result: CheckResult): AllowedResult {
  if (!result.allowed) throw new Refused(result);
  return result;
}

const ALLOWED: readonly Outcome[] = ["allowed", "allowed_with_limits"];
const NOT_ALLOWED: readonly Outcome[] = ["needs_something", "refused", "could_not_judge"];

/** Returns the answer of the service, or null if it is not a result of a check. */
export function readCheckResult(answer: unknown): CheckResult | null {
  if (!isObject(answer)) return null;
  const { allowed, outcome, envelope, line, message, text } = answer;
  const texts = [line, message, text].every((one) => typeof one === "string");
  const lists = ["constraints", "obligations", "resources"].every((one) => Array.isArray(answer[one]));
  // INVARIANT: only an answer that is allowed by both of its words allows.
  const outcomes = allowed === true ? ALLOWED : allowed === false ? NOT_ALLOWED : [];
  if (!texts || !lists || !outcomes.includes(outcome as Outcome) || !isObject(envelope)) return null;
  if (allowed === false && typeof envelope["code"] !== "string") return null;
  return answer as unknown as CheckResult;
}

/** Returns the result of a check that could not be made: a refusal with `decided` false. */
export function failClosed(surface: Surface, cause: unknown): RefusedResult {
  const error = toDemurError(cause);
  const envelope = error.toRefusal();
  const words = UNDECIDED_WORDS[undecidedCode(envelope.code)];
  return {
    allowed: false,
    outcome: "could_not_judge",
    surface,
    envelope,
    line: envelope.line,
    message: `${envelope.line}\n${words.message}`,
    text: words.text,
    constraints: [],
    obligations: [],
    resources: [],
    decision_id: null,
    quoted: null,
    changed: null,
    reask: "",
    error,
  };
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
