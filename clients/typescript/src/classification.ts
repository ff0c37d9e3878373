/** From a verdict and its codes to a class and an output, and from a code to a refusal. */

import type {
  AnyReasonCode,
  DecisionOutput,
  Obligation,
  RefusalClass,
  Surface,
  Verdict,
} from "./reason_codes.ts";
import { CORE, formatRefusal, requireCode } from "./refusal_line.ts";
import type { RegistryOption } from "./refusal_line.ts";
import type { JsonObject, Refusal } from "./wire.ts";

/** Verdict and codes cannot stand together. */
export class InconsistentError extends Error {
  override readonly name = "InconsistentError";
}

/** The refusal class (null: nothing refuses) and what the caller must now do. */
export interface Classification {
  readonly refusal_class: RefusalClass | null;
  readonly decision_output: DecisionOutput;
}

export interface ClassifyOptions extends RegistryOption {
  readonly constraints?: readonly string[];
  readonly missing?: readonly string[];
  readonly attemptsLeft?: boolean;
}

const CLASSES: readonly RefusalClass[] = ["SOFT_BLOCK", "WORKFLOW_BLOCK", "HARD_BLOCK"];
const OBLIGATIONS: readonly Obligation[] = ["crisis_resources", "human_review"];
const MAX_DETAIL_LENGTH = 2000;

/**
 * Returns the class and the decision output of a verdict with its unresolved codes.
 *
 * @throws UnknownCodeError A code is not registered.
 * @throws InconsistentError Verdict and codes cannot stand together.
 */
export function classify(
  verdict: Verdict,
  codes: readonly AnyReasonCode[],
  { constraints = [], missing = [], attemptsLeft = true, registry = CORE }: ClassifyOptions = {},
): Classification {
  const classes = codes.map((code) => requireCode(code, registry).refusal_class);
  // INVARIANT: adding a code can never weaken the class.
  const refusal_class = CLASSES.findLast((one) => classes.includes(one)) ?? null;
  if (verdict === "ALLOW") {
    return { refusal_class, decision_output: allowedOutput(refusal_class, constraints) };
  }
  if (!["ESCALATE", "ABSTAIN", "DENY"].includes(verdict)) {
    throw new TypeError(`unknown verdict \`${String(verdict)}\``);
  }
  if (refusal_class === null) {
    throw new InconsistentError(`${verdict} needs at least one reason code that refuses`);
  }
  const canAsk =
    (refusal_class === "WORKFLOW_BLOCK" && missing.length > 0) ||
    (refusal_class === "SOFT_BLOCK" && constraints.length > 0);
  const decision_output = canAsk && attemptsLeft ? "NEED_CONTEXT" : "REFUSE_WITH_PATH";
  return { refusal_class, decision_output };
}

function allowedOutput(
  refusalClass: RefusalClass | null,
  constraints: readonly string[],
): DecisionOutput {
  if (refusalClass === null) return "ALLOW_EXECUTE";
  if (refusalClass !== "SOFT_BLOCK") {
    throw new InconsistentError(`ALLOW cannot stand beside an unresolved ${refusalClass}`);
  }
  if (constraints.length === 0) {
    throw new InconsistentError("ALLOW with a SOFT_BLOCK needs the constraints that make it safe");
  }
  return "ALLOW_CONSTRAINED";
}

/** Returns what must happen wherever one of these codes appears, lifted or not. */
export function obligationsOf(
  codes: readonly AnyReasonCode[],
  { registry = CORE }: RegistryOption = {},
): Obligation[] {
  const owed = codes.flatMap((code) => requireCode(code, registry).obligations);
  return OBLIGATIONS.filter((one) => owed.includes(one));
}

export interface RefusalOptions extends RegistryOption {
  readonly evidence?: JsonObject;
  readonly surface?: Surface | null;
}

/**
 * Returns the refusal of a registered code, its facts filled in from the registry.
 *
 * @throws UnknownCodeError The code is not registered.
 */
export function buildRefusal(
  code: AnyReasonCode,
  detail = "",
  { evidence = {}, surface = null, registry = CORE }: RefusalOptions = {},
): Refusal {
  const { refusal_class, advice, retry_scope, severity, decided, parent } = requireCode(code, registry);
  const { constraints } = evidence;
  const isNamed = [constraints].flat().some((one) => typeof one === "string" && one.trim() !== "");
  const shown = clipDetail(detail);
  return {
    schema_version: "refusal.v1",
    code,
    parent,
    refusal_class,
    // INVARIANT: a refusal advises to accept constraints only if it names them.
    advice: advice === "accept_constraints" && !isNamed ? "change_request" : advice,
    retry_scope,
    severity,
    decided,
    detail: shown,
    evidence,
    surface,
    source: null,
    decision_id: null,
    registry: registry.REGISTRY,
    line: formatRefusal(code, shown, { registry }),
  };
}

/** Returns a detail cut to its limit, with a note of how much was left out. */
function clipDetail(detail: string): string {
  const characters = [...detail.replace(/\p{Surrogate}/gu, "?")];
  if (characters.length <= MAX_DETAIL_LENGTH) return characters.join("");
  const kept = MAX_DETAIL_LENGTH - `… [${characters.length} more characters]`.length;
  return `${characters.slice(0, kept).join("")}… [${characters.length - kept} more characters]`;
}
