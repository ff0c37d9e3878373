// Generated from the routes of the service; do not edit.

import type {
  AnyReasonCode,
  Advice,
  DecisionOutput,
  GrantKind,
  Obligation,
  RefusalClass,
  RetryScope,
  Severity,
  Surface,
  Verdict,
} from "./reason_codes.ts";

/** A JSON object of any form. */
export type JsonObject = { readonly [name: string]: unknown };

/** RFC 9457 problem details, with the reason code and how to go on. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail?: string;
  readonly code: AnyReasonCode;
  readonly advice: string | null;
  /** The part of the request at fault. */
  readonly where?: string;
  readonly help?: string;
}

/** One refusal with its reason, class and advice. Build one with `Refusal.from_code`. */
export interface Refusal {
  readonly code: AnyReasonCode;
  readonly refusal_class: RefusalClass | null;
  readonly advice: Advice | null;
  readonly retry_scope: RetryScope | null;
  readonly severity: Severity;
  readonly decided: boolean;
  readonly registry: string;
  readonly parent: AnyReasonCode | null;
  readonly detail: string;
  readonly evidence: JsonObject;
  readonly surface: Surface | null;
  readonly source: RefusalSource | null;
  readonly decision_id: string | null;
  readonly schema_version: "refusal.v1";
  readonly line: string;
}

/**
 * The provider, framework or guard that refused, and its native signal.
 *
 * `native` is plain JSON, verbatim; `path` is its place in the response. `served_by` names the
 * model that answered instead. `confidence` is set only if prose was classified, not if a
 * typed signal was read.
 */
export interface RefusalSource {
  readonly name: string;
  readonly path?: string | null;
  readonly native?: unknown;
  readonly served_by?: string | null;
  readonly confidence?: number | null;
  readonly request_id?: string | null;
}

/**
 * The outcome, and the reason of a refusal: for a program, a log, a model and a person.
 *
 * `envelope` is the refusal as plain JSON, `line` the same in one line, `message` what to tell a
 * model, `text` what to show a person. They are empty without a refusal. `constraints` bind an
 * allowed action. `obligations` hold either way; always show `resources`. `quoted` is a
 * withheld tool result or passage as quoted data, without the planted orders. `changed` is what to
 * pass on in place of the text, the arguments or the result, unless it is null. `reask` tells the
 * model why to answer once more, if it may.
 */
export interface Enforced {
  readonly allowed: boolean;
  readonly outcome: Outcome;
  readonly surface: Surface;
  readonly envelope: JsonObject;
  readonly line: string;
  readonly message: string;
  readonly text: string;
  readonly constraints: readonly string[];
  readonly obligations: readonly Obligation[];
  readonly resources: readonly string[];
  readonly decision_id: string | null;
  readonly quoted: string | null;
  readonly changed: unknown;
  readonly reask: string;
}

export type Outcome =
  | "allowed"
  | "allowed_with_limits"
  | "could_not_judge"
  | "needs_something"
  | "refused";

/** A further line of a stream. */
export interface AnswerChunk {
  readonly text: string;
}

/** A decision and everything that led to it */
export interface DecisionRecord {
  readonly decision_id: string;
  readonly created_at: string;
  readonly tenant: string;
  readonly action_type: string;
  readonly policy: PolicyRef;
  readonly verdict: Verdict;
  readonly decision_output: DecisionOutput;
  readonly reason_codes: readonly AnyReasonCode[];
  readonly explanation: Explanation;
  readonly determinism: Determinism;
  readonly sealed_digest: string;
  readonly schema_version: "decision_record.v1";
  readonly basis: "request" | "resolution" | "runtime";
  readonly enforced: boolean;
  readonly refusal_class: RefusalClass | null;
  readonly request_id: string | null;
  readonly continues: string | null;
  readonly root_id: string | null;
  readonly attempt: number;
  readonly attempts_left: boolean;
  readonly amount: Amount | null;
  readonly matched_rules: readonly MatchedRule[];
  readonly shadow_rules: readonly string[];
  readonly shadowed_codes: readonly AnyReasonCode[];
  readonly invalid: readonly InvalidField[];
  readonly constraints: readonly string[];
  readonly missing: readonly string[];
  readonly accepted: readonly string[];
  readonly resolved_codes: readonly AnyReasonCode[];
  readonly lifted_by: readonly string[];
  readonly ignored_grants: readonly IgnoredGrant[];
  readonly obligations: readonly Obligation[];
  readonly reason: string | null;
  readonly what_can_be_done_now: string | null;
  readonly how_to_proceed: string | null;
  readonly next_step: Advice | null;
  readonly leading_code: AnyReasonCode | null;
  readonly fallback_codes: readonly AnyReasonCode[];
  readonly approvals: number;
  readonly context_ref: JsonObject | null;
  readonly redaction: Redaction | null;
  readonly chain: ChainLink | null;
  /** null once it was erased */
  readonly request: JsonObject | null;
  /** null once it was erased */
  readonly requester: string | null;
  /** null once it was erased */
  readonly scope: { readonly [name: string]: string } | null;
  /** null once it was erased */
  readonly facts: JsonObject | null;
  /** null once it was erased */
  readonly findings: readonly Finding[] | null;
  /** null once it was erased */
  readonly grants: readonly RecordedGrant[] | null;
  /** null once it was erased */
  readonly risk_signals: JsonObject | null;
  /** null once it was erased */
  readonly excerpt: Excerpt | null;
}

/** The policy that decided, and its mode. */
export interface PolicyRef {
  readonly policy_id: string;
  readonly policy_version: string;
  readonly digest: string;
  readonly mode: string;
}

/** The decision in words: one sentence, and its reasons. */
export interface Explanation {
  readonly summary: string;
  readonly details: string;
}

/**
 * The versions and digests that determine a decision.
 *
 * `models` are the models whose scores are among the signals, by the name of the scorer.
 */
export interface Determinism {
  readonly engine_version: string;
  readonly registry_version: string;
  readonly registry_digest: string;
  readonly policy_digest: string;
  readonly memory_digest?: string | null;
  readonly memory_settings?: JsonObject | null;
  readonly models?: { readonly [name: string]: ModelRef } | null;
}

/** A model that scored something, and the digest of the model or of what it was asked. */
export interface ModelRef {
  readonly model: string;
  readonly digest: string;
}

/** The requested amount; `value` is None if it is no number. */
export interface Amount {
  readonly value: number | null;
  readonly currency: string | null;
}

/** A rule that matched. */
export interface MatchedRule {
  readonly rule_id: string;
  readonly stage: string;
}

/**
 * A fact that a rule compares and that is invalid, and why.
 *
 * `part` is the field to supply where it is not the fact itself, such as the currency of an
 * amount. Records of engine 0.1.0 do not say why.
 */
export interface InvalidField {
  readonly rule_id: string;
  readonly path: string;
  readonly why?: string;
  readonly part?: string;
}

/** A grant that lifted nothing, and why; `still_needed` people must grant the same. */
export interface IgnoredGrant {
  readonly grant_id: string;
  readonly why: string;
  readonly still_needed?: number;
}

/** The profile and the paths of redaction. */
export interface Redaction {
  readonly profile: string;
  readonly removed: readonly string[];
}

/** The place of a record in its tenant's chain. */
export interface ChainLink {
  readonly seq: number;
  readonly previous: string;
  readonly hash: string;
}

/** One finding of a guard. */
export interface Finding {
  readonly code: AnyReasonCode;
  readonly surface: Surface;
  readonly span?: Span | null;
  readonly detail?: string;
  readonly evidence?: JsonObject;
  readonly action?: Action;
}

/** The place of a finding in the text: `text[start:end]`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export type Action =
  | "block"
  | "escalate"
  | "warn";

/**
 * A grant as a record keeps it: `digest` stands in place of the signature, which is empty.
 *
 * Records of earlier versions hold the signature and no digest.
 */
export interface RecordedGrant {
  readonly grant_id: string;
  readonly kind: GrantKind;
  readonly granted_by: string;
  readonly granted_to: string;
  readonly scope: { readonly [name: string]: string };
  readonly not_before: string;
  readonly expires_at: string;
  readonly key_id: string;
  readonly algorithm: "ed25519" | "hmac-sha256";
  readonly codes?: readonly AnyReasonCode[];
  readonly signature?: string;
  readonly uses?: number;
  readonly schema_version?: "grant.v1";
  readonly digest?: string;
}

/**
 * What was said at a check, and by whom; recorded only if the operator turned it on.
 *
 * `source` names the tool or the document. `prompt` is the beginning of what an answer answers.
 * `span` is the place of a finding in `text`, unless redaction changed the text. `is_cut` says
 * that the text was longer.
 */
export interface Excerpt {
  readonly text: string;
  readonly speaker: "assistant" | "document" | "tool" | "user";
  readonly surface: Surface;
  readonly source: string;
  readonly prompt: string;
  readonly span: Span | null;
  readonly is_cut: boolean;
}

/**
 * A judgement on one answer. `code` says why something was declined, `kind` how much.
 *
 * `confidence` is the chance that the kind is right; `truncated` says that only head and tail
 * were read. `model` is the digest of the learned model that took part.
 */
export interface RefusalDetection {
  readonly kind: RefusalKind;
  readonly confidence: number;
  readonly basis: DetectionBasis;
  readonly spans: readonly RefusalSpan[];
  readonly language: string | null;
  readonly code: AnyReasonCode | null;
  readonly detail: string;
  readonly truncated: boolean;
  readonly model: string | null;
}

export type RefusalKind =
  | "full"
  | "none"
  | "partial"
  | "unable";

export type DetectionBasis =
  | "code"
  | "empty"
  | "learned"
  | "prose"
  | "typed";

/** A sentence that refuses: `answer[start:end]`. */
export interface RefusalSpan {
  readonly start: number;
  readonly end: number;
}

/** The refusal that the text is as a whole, or null, and those in its lines. */
export interface ParsedText {
  readonly refusal: ParsedLine | null;
  readonly found: readonly ParsedLine[];
}

/**
 * A refusal in a text: code and detail, and its place as characters from `start` to `end`.
 *
 * `legacy` says that a phrase named the code. Lone surrogates of a detail stay escaped.
 */
export interface ParsedLine {
  readonly code: AnyReasonCode;
  readonly detail: string;
  readonly start: number;
  readonly end: number;
  readonly legacy: boolean;
}

/** The refusal line, ready to be logged or returned. */
export interface RefusalLine {
  readonly line: string;
}

/** A request to decide, with findings, grants, accepted constraints and signals. */
export interface Decide {
  readonly request: JsonObject;
  readonly findings?: readonly Finding[];
  readonly grants?: readonly Grant[];
  readonly accepted?: readonly string[];
  readonly signals?: JsonObject | null;
}

/**
 * Authority of one kind, given by `granted_by` to `granted_to`, signed with `key_id`.
 *
 * `scope` names what it covers, key by key; the value `*` covers any value of that key.
 * `codes` narrows it to some of the codes that its kind can lift. `uses` is how many decisions it
 * may turn into ALLOW; without it, there is no limit.
 */
export interface Grant {
  readonly grant_id: string;
  readonly kind: GrantKind;
  readonly granted_by: string;
  readonly granted_to: string;
  readonly scope: { readonly [name: string]: string };
  readonly not_before: string;
  readonly expires_at: string;
  readonly key_id: string;
  readonly algorithm: "ed25519" | "hmac-sha256";
  readonly codes?: readonly AnyReasonCode[];
  readonly signature?: string;
  readonly uses?: number;
  readonly schema_version?: "grant.v1";
}

/** Grants and accepted constraints for an earlier decision. */
export interface Resolve {
  readonly grants?: readonly Grant[];
  readonly accepted?: readonly string[];
}

/** A prompt that is about to reach a model; `request` holds further parts of the request. */
export interface EnforcePrompt {
  readonly run?: string | null;
  readonly call_id?: string | null;
  readonly signals?: JsonObject | null;
  readonly subject?: JsonObject | null;
  readonly locale?: string | null;
  readonly changes?: boolean;
  readonly text: string;
  readonly cost?: number;
  readonly request?: JsonObject | null;
}

/** An answer of a model, and the prompt if it is known. */
export interface EnforceAnswer {
  readonly run?: string | null;
  readonly call_id?: string | null;
  readonly signals?: JsonObject | null;
  readonly subject?: JsonObject | null;
  readonly locale?: string | null;
  readonly changes?: boolean;
  readonly text: string;
  readonly prompt?: string | null;
  readonly request?: JsonObject | null;
}

/**
 * What a model answered: the provider's own `response` or error, and the `text` in it, if any.
 *
 * `prompt` helps to tell a refusal in prose from an answer.
 */
export interface EnforceModel {
  readonly run?: string | null;
  readonly call_id?: string | null;
  readonly signals?: JsonObject | null;
  readonly subject?: JsonObject | null;
  readonly locale?: string | null;
  readonly changes?: boolean;
  readonly response?: unknown;
  readonly text?: string | null;
  readonly prompt?: string | null;
}

/**
 * A tool call that is about to be made.
 *
 * `arguments` are an object, or the text of one that a model wrote. `tool` is the definition that
 * its server `source` presents. `commands` are further texts that the call would run. `request`
 * replaces the request that is made of name and arguments.
 */
export interface EnforceToolCall {
  readonly run?: string | null;
  readonly call_id?: string | null;
  readonly signals?: JsonObject | null;
  readonly subject?: JsonObject | null;
  readonly locale?: string | null;
  readonly changes?: boolean;
  readonly name: string;
  readonly arguments?: JsonObject | string;
  readonly tool?: ToolDefinition | null;
  readonly source?: string;
  readonly commands?: readonly string[];
  readonly grants?: readonly Grant[];
  readonly accepted?: readonly string[];
  readonly request?: JsonObject | null;
}

/** A tool as its server presents it: name, description, and JSON schema of its arguments. */
export interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  readonly schema?: JsonObject;
}

/** The result of a tool: a text or any JSON. By default `arguments` are those of the call. */
export interface EnforceToolResult {
  readonly run?: string | null;
  readonly call_id?: string | null;
  readonly signals?: JsonObject | null;
  readonly subject?: JsonObject | null;
  readonly locale?: string | null;
  readonly changes?: boolean;
  readonly name: string;
  readonly result: unknown;
  readonly arguments?: JsonObject | string | null;
  readonly grants?: readonly Grant[];
  readonly accepted?: readonly string[];
  readonly request?: JsonObject | null;
}

/** A passage that was retrieved for a model, and its source. */
export interface EnforceRetrieval {
  readonly run?: string | null;
  readonly call_id?: string | null;
  readonly signals?: JsonObject | null;
  readonly subject?: JsonObject | null;
  readonly locale?: string | null;
  readonly changes?: boolean;
  readonly text: string;
  readonly source?: string;
  readonly action?: string;
}

/** A context before and after it was compacted, and the manifest of what was pinned in it. */
export interface EnforceCompaction {
  readonly run?: string | null;
  readonly call_id?: string | null;
  readonly signals?: JsonObject | null;
  readonly subject?: JsonObject | null;
  readonly locale?: string | null;
  readonly changes?: boolean;
  readonly before: readonly ContextMessage[];
  readonly after: readonly ContextMessage[];
  readonly manifest?: PinManifest | null;
  readonly context?: string;
  readonly action?: string;
}

/** One message: its role and its text. */
export interface ContextMessage {
  readonly role: "assistant" | "developer" | "system" | "tool" | "user";
  readonly content: string;
}

/** The pins of one context, and the seal over them. */
export interface PinManifest {
  readonly pins: readonly Pin[];
  readonly context: string;
  readonly seal: string;
  readonly schema_version?: "pin_manifest.v1";
}

/** One pinned text: who says it, its place among the pins, its digest; a rule has its text. */
export interface Pin {
  readonly role: "assistant" | "developer" | "system" | "tool" | "user";
  readonly order: number;
  readonly digest: string;
  readonly text?: string | null;
}

/** The first line of a stream: what belongs to the whole answer, and maybe its first text. */
export interface EnforceStream {
  readonly run?: string | null;
  readonly call_id?: string | null;
  readonly signals?: JsonObject | null;
  readonly subject?: JsonObject | null;
  readonly locale?: string | null;
  readonly changes?: boolean;
  readonly text?: string;
  readonly prompt?: string | null;
  readonly request?: JsonObject | null;
}

/** An answer of a model, and the prompt if it is known. */
export interface Detect {
  readonly response: string;
  readonly prompt?: string | null;
}

/** A text: one refusal, an answer, or lines of a log. */
export interface ParseInput {
  readonly text: string;
}

/** A registered code, and the detail of this refusal. */
export interface FormatInput {
  readonly code: AnyReasonCode;
  readonly detail?: string;
}

/** The words of a refusal if nothing was judged: for a model, and for a person. */
export const UNDECIDED_WORDS = {
  "GUARDRAIL_UNAVAILABLE": {
    "message": "Wait a while and send it again unchanged; other calls may pass.",
    "text": "I see your request, and the hold-up is on our side. I can't answer safely at the moment, because one of the checks I rely on isn't responding.\nI can try again in a moment, or keep your message ready for another try. Shall I try once more?"
  },
  "GUARDRAIL_PARTIAL": {
    "message": "Wait a while and send it again unchanged; other calls may pass.",
    "text": "I see your request, and the hold-up is on our side. I can't answer safely at the moment, because one of the checks I rely on isn't responding.\nI can try again in a moment, or keep your message ready for another try. Shall I try once more?"
  },
  "STORAGE_UNAVAILABLE": {
    "message": "Wait a while and send it again unchanged; it concerns the whole session.",
    "text": "I see your request, and the hold-up is on our side. I can't carry this out at the moment, because I couldn't save a record of it first.\nI can try again in a moment, or carry on with questions that only need an answer. Shall I try once more?"
  },
  "POLICY_INVALID": {
    "message": "Do not send it again, and tell the user that whoever runs the system must settle it; it concerns the whole session.",
    "text": "I see your request, and the hold-up is on our side. I can't get this done right now, because something on our side broke before I could look at it.\nI can keep your message ready for another try, or tell you whom to contact about it. Would you like the contact?"
  },
  "REQUEST_INVALID": {
    "message": "Ask for something else, not for the same in other words; other calls may pass.",
    "text": "I see that something was sent to me. I can't read it in this form, because a part of it is broken or names something that isn't there.\nI can say which part it was, or show what a complete one looks like. What did you want to ask for?"
  },
  "INTERNAL_ERROR": {
    "message": "Do not send it again, and tell the user that whoever runs the system must settle it; other calls may pass.",
    "text": "I see your request, and the hold-up is on our side. I can't get this done right now, because something on our side broke before I could look at it.\nI can keep your message ready for another try, or tell you whom to contact about it. Would you like the contact?"
  }
} as const;
