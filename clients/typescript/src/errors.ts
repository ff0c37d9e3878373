/** Errors of the service as typed errors, and the refusal that each of them stands for. */

import { buildRefusal } from "./classification.ts";
import type { Advice, AnyReasonCode } from "./reason_codes.ts";
import { UNDECIDED_WORDS } from "./wire.ts";
import type { Problem, Refusal } from "./wire.ts";

type UndecidedCode = keyof typeof UNDECIDED_WORDS;

/** The service gave no answer that can be used. Nothing was judged, so nothing may run. */
export class DemurError extends Error {
  override readonly name: string = "DemurError";
  readonly code: AnyReasonCode;

  constructor(message: string, code: AnyReasonCode, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  /** The next step a machine can take. */
  get advice(): Advice | null {
    return this.toRefusal().advice;
  }

  /** Returns the refusal that this error stands for: `decided` is false. */
  toRefusal(): Refusal {
    return buildRefusal(undecidedCode(this.code), this.message, { surface: "runtime" });
  }
}

/** The service cannot be reached, takes too long, or does not answer as demur does. */
export class ServiceUnavailableError extends DemurError {
  override readonly name = "ServiceUnavailableError";

  constructor(message: string, options?: ErrorOptions) {
    super(message, "GUARDRAIL_UNAVAILABLE", options);
  }
}

/** The service answered with problem details (RFC 9457). */
export class ProblemError extends DemurError {
  override readonly name = "ProblemError";
  readonly problem: Problem;
  /** After how many seconds the call may be repeated, if the service says so. */
  readonly retryAfter: number | null;

  constructor(problem: Problem, retryAfter: number | null = null) {
    super(`${problem.status} ${problem.detail ?? problem.title}`, problem.code);
    this.problem = problem;
    this.retryAfter = retryAfter;
  }

  get status(): number {
    return this.problem.status;
  }

  /** The part of the request at fault, if one is. */
  get where(): string | null {
    return this.problem.where ?? null;
  }

  get help(): string | null {
    return this.problem.help ?? null;
  }
}

/** Returns the code, or GUARDRAIL_UNAVAILABLE for one that says that something was decided. */
export function undecidedCode(code: string): UndecidedCode {
  return Object.hasOwn(UNDECIDED_WORDS, code) ? (code as UndecidedCode) : "GUARDRAIL_UNAVAILABLE";
}

/** Returns an error as a `DemurError`. */
export function toDemurError(error: unknown): DemurError {
  if (error instanceof DemurError) return error;
  const isLate = error instanceof Error && error.name === "TimeoutError";
  const message = isLate ? "the guard service did not answer in time" : "no guard service answers";
  return new ServiceUnavailableError(message, { cause: error });
}


/** Tells whether a value is problem details of demur. */
export function isProblem(value: unknown): value is Problem {
  if (typeof value !== "object" || value === null) return false;
  const { code, status } = value as Partial<Problem>;
  return typeof code === "string" && typeof status === "number";
}
