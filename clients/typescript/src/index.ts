/** The refusal contract of demur in TypeScript, and a client of its service. */

export { AnswerStream } from "./answer_stream.ts";
export type { TextSource } from "./answer_stream.ts";
export { Refused, failClosed, requireAllowed } from "./check_result.ts";
export type { AllowedResult, CheckResult, RefusedResult } from "./check_result.ts";
export { InconsistentError, buildRefusal, classify, obligationsOf } from "./classification.ts";
export type { Classification, ClassifyOptions, RefusalOptions } from "./classification.ts";
export { DemurClient } from "./client.ts";
export type { CallOptions, ClientOptions } from "./client.ts";
export { DemurError, ProblemError, ServiceUnavailableError } from "./errors.ts";
export * from "./reason_codes.ts";
export {
  CORE,
  KNOWN_CODES,
  UnknownCodeError,
  findRefusals,
  formatRefusal,
  isCode,
  parseRefusal,
} from "./refusal_line.ts";
export type { CodeRegistry, FoundRefusal, ParsedRefusal, RegistryOption } from "./refusal_line.ts";
export type * from "./wire.ts";
