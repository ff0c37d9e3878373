// Generated from the registry of reason codes; do not edit.

/** The registry this was generated from. */
export const REGISTRY = "reason_codes.v1@1.2.0";

/** May the refusal be lifted? */
export type RefusalClass =
  | "HARD_BLOCK"
  | "WORKFLOW_BLOCK"
  | "SOFT_BLOCK";

/** What should the caller do next? */
export type Advice =
  | "do_not_retry"
  | "change_request"
  | "provide_context"
  | "accept_constraints"
  | "request_approval"
  | "retry_later"
  | "reset_context"
  | "use_other_model"
  | "escalate_operator";

/** How far does the refusal reach? */
export type RetryScope =
  | "call"
  | "rule"
  | "session";

/** How much attention does it deserve? */
export type Severity =
  | "info"
  | "low"
  | "medium"
  | "high"
  | "critical";

/** Does the code speak against the action? */
export type Effect =
  | "refuse"
  | "allow";

/** Where was the reason seen? */
export type Surface =
  | "input"
  | "output"
  | "tool_call"
  | "tool_loop"
  | "tool_result"
  | "retrieval"
  | "skill"
  | "compaction"
  | "code_execution"
  | "rate"
  | "policy"
  | "memory"
  | "model"
  | "runtime";

/** What can an authority supply? */
export type GrantKind =
  | "approval"
  | "authorization"
  | "context"
  | "quota"
  | "scope"
  | "tool";

/** What must happen in any case? */
export type Obligation =
  | "crisis_resources"
  | "human_review";

/** How firmly is the code promised? */
export type Stability =
  | "preview"
  | "stable"
  | "deprecated";

/** What did the engine conclude? */
export type Verdict =
  | "ALLOW"
  | "ESCALATE"
  | "ABSTAIN"
  | "DENY";

/** What must the caller do? */
export type DecisionOutput =
  | "ALLOW_EXECUTE"
  | "ALLOW_CONSTRAINED"
  | "NEED_CONTEXT"
  | "REFUSE_WITH_PATH";

/** What the registry says about one reason code. */
export interface ReasonCodeInfo {
  readonly title: string;
  readonly refusal_class: RefusalClass | null;
  readonly advice: Advice | null;
  readonly retry_scope: RetryScope | null;
  readonly severity: Severity;
  /** False if nothing was judged: a check failed, and the action must not run. */
  readonly decided: boolean;
  readonly deprecated: boolean;
}

/** Every reason code. Organisations' codes stand under `domain/CODE`. */
export const REASON_CODES = {
  /** A rule of the deployment forbids this and no narrower code names the rule. Use it only when none of its children fits. */
  POLICY_VIOLATION: { title: "Policy violation", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** Too many requests, calls or tokens arrived in one time window. Waiting is enough; when a total allowance is spent, use BUDGET_EXCEEDED. */
  RATE_LIMIT: { title: "Rate limit", refusal_class: "WORKFLOW_BLOCK", advice: "retry_later", retry_scope: "session", severity: "low", decided: true, deprecated: false },
  /** The tool's definition or origin does not match what was pinned, or was never pinned at all. A known tool that is merely not permitted is TOOL_NOT_ALLOWED. */
  UNVERIFIED_TOOL: { title: "Unverified tool", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** The tool is known, but the allow-list for this agent or user does not include it or these arguments. If the tool itself cannot be trusted, use UNVERIFIED_TOOL. */
  TOOL_NOT_ALLOWED: { title: "Disallowed tool", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** Code or data from outside would be run without anyone having read it, such as a download piped to a shell or an untrusted object unpickled. */
  RCE_RISK: { title: "Remote code execution", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false },
  /** If this ran, data would be lost for good: erased, wiped or overwritten without a copy. Reading or listing the same data is not covered. */
  DESTRUCTIVE_ACTION: { title: "Destructive action", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "high", decided: true, deprecated: false },
  /** If this ran, a whole machine or everything that a person owns on it would be gone: the root of the file system, a whole home folder or a block device. Other losses are UNAPPROVED_DESTRUCTION. */
  IRRECOVERABLE_DESTRUCTION: { title: "Irrecoverable destruction", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false },
  /** If this ran, some data would be lost for good, and nobody who may decide that has approved it. The loss of a whole machine or home is IRRECOVERABLE_DESTRUCTION. */
  UNAPPROVED_DESTRUCTION: { title: "Destruction without approval", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "high", decided: true, deprecated: false },
  /** The action would gain rights that the agent does not hold now, such as becoming root or widening a role. A call that merely lacks a right is PERMISSION_DENIED. */
  PRIVILEGE_ESCALATION: { title: "Privilege escalation", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Private data would leave for a place outside the trust boundary. A secret printed in an answer is SECRET_LEAK; a host the network rules forbid is EGRESS_DENIED. */
  EXFILTRATION_RISK: { title: "Exfiltration risk", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** The agent repeats the same calls, or a cycle of calls, without progress. Many different calls that use up an allowance are BUDGET_EXCEEDED. */
  LOOP_DETECTED: { title: "Tool loop", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "session", severity: "medium", decided: true, deprecated: false },
  /** A total allowance of money, tokens, steps or time for this task or account is used up. Waiting does not bring it back, unlike RATE_LIMIT. */
  BUDGET_EXCEEDED: { title: "Budget used up", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "session", severity: "medium", decided: true, deprecated: false },
  /** Pinned rules or stored context are not what was sealed earlier: a seal does not verify or a pinned part is gone. New instructions in the text are CONTEXT_INJECTION. */
  INTEGRITY_FAILURE: { title: "Context integrity failure", refusal_class: "HARD_BLOCK", advice: "reset_context", retry_scope: "session", severity: "high", decided: true, deprecated: false },
  /** Text that should be data gives the model orders, or tries to replace its instructions, whether a user typed it or it came from a page, tool or document. Hidden in a skill it is SKILL_INJECTION. */
  CONTEXT_INJECTION: { title: "Context injection", refusal_class: "SOFT_BLOCK", advice: "reset_context", retry_scope: "session", severity: "high", decided: true, deprecated: false },
  /** A persona, game, fiction or encoding is wrapped around the request to loosen the model's rules. It names the form only; a stated aim to defeat safeguards is SAFETY_EVASION. */
  JAILBREAK_WRAPPER: { title: "Jailbreak wrapper", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** Code brings in a module that can start processes, open sockets or reach native memory, and nothing declares the need. Code that already runs foreign input is RCE_RISK. */
  RISKY_IMPORT: { title: "Risky import", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Code hides what it does: a decoded, decompressed or assembled string is executed. Decoding data without executing it is not covered. */
  OBFUSCATED_CODE: { title: "Obfuscated code", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** A skill, plugin or tool description carries hidden orders for the model that its user does not see. Orders in ordinary content are CONTEXT_INJECTION. */
  SKILL_INJECTION: { title: "Skill injection", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** A key, password, token or other credential stands in text that is about to be shown, sent or stored. Data about a person is PII_DETECTED. */
  SECRET_LEAK: { title: "Secret leak", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "high", decided: true, deprecated: false },
  /** The text contains data that identifies a person, such as a card, account or identity number. A wish to spy on or expose someone is CONTENT_PRIVACY. */
  PII_DETECTED: { title: "Personal data", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** The model's answer matches a pattern that must never leave, whatever was asked. A credential in an answer is SECRET_LEAK. */
  OUTPUT_FORBIDDEN: { title: "Forbidden output", refusal_class: "HARD_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Someone seems to be in immediate danger of harming themselves or another, so a human and help lines are brought in. A request for methods alone is CONTENT_SELF_HARM. */
  CRISIS_ESCALATION: { title: "Person in crisis", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "session", severity: "critical", decided: true, deprecated: false },
  /** The stated aim is to harm or rob someone, or to act without their authority, whatever the topic. When only the kind of content is known, use a CONTENT code. */
  OBJECTIVE_MALICIOUS: { title: "Malicious objective", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false },
  /** The stated aim is to switch off, get around or hide from a safeguard. It names an intent; an odd form without that intent is JAILBREAK_WRAPPER. */
  SAFETY_EVASION: { title: "Safety evasion", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "session", severity: "critical", decided: true, deprecated: false },
  /** The platform forbids this content for everybody and no setting or contract lifts it. A limit in a customer's agreement is PROVIDER_TERMS. */
  PLATFORM_PROHIBITED: { title: "Platform prohibition", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false },
  /** Content was judged harmful, but its kind is not given or has no code of its own. Prefer a child; if not even harm is stated, use FILTERED_UNSPECIFIED. */
  CONTENT_OTHER: { title: "Harmful content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** The request or answer would spy on, locate, expose or profile a person without consent. Personal data merely present in text is PII_DETECTED. */
  CONTENT_PRIVACY: { title: "Privacy intrusion", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Content bullies, threatens, insults or intimidates a particular person. Attacks on a group for what its members are count as CONTENT_HATE. */
  CONTENT_HARASSMENT: { title: "Harassing content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Content would help someone make, alter or obtain weapons or explosives. Weapons of mass harm have the narrower CONTENT_CBRN. */
  CONTENT_WEAPONS: { title: "Weapons content", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false },
  /** Content would help attack computers, networks or accounts, for example with malware or by breaking in. Teaching defence is not covered. */
  CONTENT_CYBER: { title: "Cyber attack", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Content would help make or use chemical, biological, radiological or nuclear weapons. Conventional arms and explosives are CONTENT_WEAPONS. */
  CONTENT_CBRN: { title: "Weapons of mass harm", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false },
  /** Content describes, praises or asks for ways to hurt or kill oneself. When a person seems to be in danger now, use CRISIS_ESCALATION. */
  CONTENT_SELF_HARM: { title: "Self-harm content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "critical", decided: true, deprecated: false },
  /** Content is sexually explicit, or sexualises an adult who has not consented. Anything that involves a minor is CONTENT_CSAE. */
  CONTENT_SEXUAL: { title: "Sexual content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** Content sexualises a minor, or would help abuse or exploit one. No constraint makes it acceptable. */
  CONTENT_CSAE: { title: "Child sexual exploitation", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false },
  /** Content demeans or attacks people for what they are, such as their origin, faith, sex or disability. Attacks on one person for other reasons are CONTENT_HARASSMENT. */
  CONTENT_HATE: { title: "Hateful content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Content calls for, plans or graphically celebrates physical violence against people or animals. The means of violence are CONTENT_WEAPONS. */
  CONTENT_VIOLENCE: { title: "Violent content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Content would help commit a crime without violence, such as theft, smuggling or dealing. Deceit for money is the narrower CONTENT_FRAUD. */
  CONTENT_CRIME: { title: "Criminal activity", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Content would help gain money or goods by deceit, such as forged papers or false claims. Talking a person out of secrets or access is CONTENT_SOCIAL_ENGINEERING. */
  CONTENT_FRAUD: { title: "Fraudulent scheme", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Content would manipulate or impersonate someone to win secrets, access or a harmful act, as in phishing. Deceit that only takes money is CONTENT_FRAUD. */
  CONTENT_SOCIAL_ENGINEERING: { title: "Social engineering", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Content encourages acts likely to injure people by accident or recklessness, such as dares or unsafe experiments. Intended harm has its own CONTENT codes. */
  CONTENT_DANGEROUS: { title: "Dangerous activity", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** The answer would give personal medical, legal or financial advice that calls for a qualified person. General information on the subject is not covered. */
  CONTENT_ADVICE: { title: "Professional advice", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** Content would mislead voters or disturb a vote, or a provider declines election topics as a whole. Other false claims are CONTENT_MISINFORMATION. */
  CONTENT_ELECTION: { title: "Election interference", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** Content states falsehoods that would damage the name of a real, identifiable person or body. Insults without a factual claim are CONTENT_HARASSMENT. */
  CONTENT_DEFAMATION: { title: "Defamatory claim", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** Content presents false claims as fact in a way that could harm the public. An answer that lacks support in its own sources is UNGROUNDED. */
  CONTENT_MISINFORMATION: { title: "False information", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** The text uses swear words or crude language that the deployment does not want. A word on a custom list is TERM_BLOCKLISTED. */
  CONTENT_PROFANITY: { title: "Profane language", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** The action needs proof of authority and none was given. Proof that was given but does not reach this far is PERMISSION_DENIED. */
  AUTHORIZATION_MISSING: { title: "Missing authorisation", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** The caller is known, but the rights shown do not cover this action or resource. If no proof was shown at all, use AUTHORIZATION_MISSING. */
  PERMISSION_DENIED: { title: "Permission denied", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** The request does not say which targets, limits or boundaries it applies to. Scopes of an access token are a matter of PERMISSION_DENIED. */
  SCOPE_MISSING: { title: "Missing scope", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** A fact needed to decide or to carry on was not supplied. A missing target or boundary is SCOPE_MISSING. */
  CONTEXT_MISSING: { title: "Missing context", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** A person must agree before this action runs, and nobody has answered yet. Once someone has said no, use APPROVAL_DENIED. */
  APPROVAL_REQUIRED: { title: "Approval required", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** A person was asked to agree to this action and said no. If nobody has answered yet, use APPROVAL_REQUIRED. */
  APPROVAL_DENIED: { title: "Approval denied", refusal_class: "WORKFLOW_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** The amount or extent goes beyond what the caller may decide alone. Refunds and spending have narrower codes. */
  APPROVAL_LIMIT_EXCEEDED: { title: "Approval limit exceeded", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** The aim is legitimate, but the detail asked for goes further than the aim needs. A shorter or more general answer can be given. */
  DETAIL_EXCEEDS_NEED: { title: "Excessive detail", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** The action is acceptable in principle, but in this form it is too risky. Named limits, such as a smaller range or a dry run, would bring the risk down. */
  RISK_REDUCIBLE: { title: "Reducible risk", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** What the caller wants to achieve cannot be told from the request, so it can be judged neither safe nor harmful. A single absent fact is CONTEXT_MISSING. */
  OBJECTIVE_UNCLEAR: { title: "Unclear objective", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** A tool asked the user for information and the user declined or closed the question. A no to running the action is APPROVAL_DENIED. */
  ELICITATION_DECLINED: { title: "Declined question", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** Another agent or service refused to take on the task that was handed to it, and gave no reason with a code of its own. */
  TASK_REJECTED: { title: "Rejected task", refusal_class: "WORKFLOW_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** No rule of the policy covered the request, so its default applied and a person must decide. */
  NO_MATCH_DEFAULT_ESCALATE: { title: "No matching rule", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** The refund is larger than the agent may pay out without a person. */
  REFUND_OVER_ESCALATION_LIMIT: { title: "Refund over limit", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** The purchase or payment is larger than may be made without approval. */
  SPEND_OVER_APPROVAL_LIMIT: { title: "Spend over limit", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** A risk score rose above the threshold that the policy sets. Use a child when the kind of risk is known. */
  RISK_THRESHOLD_EXCEEDED: { title: "Risk threshold exceeded", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "high", decided: true, deprecated: false },
  /** The payment is too likely to be disputed and reversed, so the action is refused. */
  CHARGEBACK_RISK_BLOCK: { title: "Chargeback risk", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** Signs show that someone other than the owner controls the account, so nothing more is done in this session. */
  ACCOUNT_TAKEOVER_RISK_BLOCK: { title: "Account takeover risk", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "session", severity: "critical", decided: true, deprecated: false },
  /** The card, account or wallet to be used is itself rated as risky, for example reported stolen. A risky transaction is FRAUD_MODEL_HIGH_RISK. */
  PAYMENT_INSTRUMENT_HIGH_RISK: { title: "Risky payment instrument", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** A fraud model rated the transaction as risky and gave no narrower cause. If likely dispute is the cause, use CHARGEBACK_RISK_BLOCK. */
  FRAUD_MODEL_HIGH_RISK: { title: "High fraud score", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "high", decided: true, deprecated: false },
  /** Recent behaviour differs from what is usual for this user or agent, without proof of anything wrong. */
  PATTERN_ANOMALY_DETECTED: { title: "Unusual pattern", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** The number, timing or size of refunds differs from what is usual for this customer. One refund that is too large is REFUND_OVER_ESCALATION_LIMIT. */
  REFUND_PATTERN_ANOMALY: { title: "Unusual refund pattern", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** The refund needs proof, such as an order or a ticket, that was not supplied. Proof that cannot be read is EVIDENCE_INVALID. */
  MISSING_EVIDENCE_REFUND: { title: "Missing refund evidence", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** A field that a rule compares is there but cannot be used: wrong type, not a number, or unreadable. A field that is absent is CONTEXT_MISSING. */
  EVIDENCE_INVALID: { title: "Invalid evidence", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** The request closely resembles one that was labelled a failure, near enough to be refused outright. A weaker likeness is FAILURE_MEMORY_SIMILAR_ESCALATE. */
  FAILURE_MEMORY_SIMILAR_BLOCK: { title: "Close failure match", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** The request resembles one that was labelled a failure, enough for a person to look at it. A closer likeness is FAILURE_MEMORY_SIMILAR_BLOCK. */
  FAILURE_MEMORY_SIMILAR_ESCALATE: { title: "Similar past failure", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** The request closely resembles one that was labelled a success, so an escalation was lifted. It never lifts a denial. */
  SUCCESS_MEMORY_SIMILAR_ALLOW: { title: "Similar past success", refusal_class: null, advice: null, retry_scope: null, severity: "info", decided: true, deprecated: false },
  /** A request id that was already decided came back with a different body. Repeating a request unchanged is no conflict. */
  IDEMPOTENCY_CONFLICT: { title: "Reused request id", refusal_class: "WORKFLOW_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /**
   * Older general code for payments refused as fraud. New decisions use CHARGEBACK_RISK_BLOCK; records that carry this one keep their meaning.
   * @deprecated Use CHARGEBACK_RISK_BLOCK instead.
   */
  OLD_FRAUD_BLOCK: { title: "Old fraud block", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: true },
  /** The model itself chose not to answer and gave no category. A filter around the model is FILTERED_UNSPECIFIED. */
  MODEL_DECLINED: { title: "Model declined", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** A provider's filter stopped the request or answer and did not say why. A model that declines in its own words is MODEL_DECLINED. */
  FILTERED_UNSPECIFIED: { title: "Unexplained filter", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** The request or answer would misuse a work, mark or likeness that others hold rights in. Word-for-word copies are IP_RECITATION. */
  IP_PROTECTED: { title: "Protected work", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** The answer would repeat a published text or piece of code almost word for word. Other uses of protected work are IP_PROTECTED. */
  IP_RECITATION: { title: "Recited source", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** The provider's contract forbids this use to this customer or in this place, harmful or not, such as training a rival model. Rules for everybody are PLATFORM_PROHIBITED. */
  PROVIDER_TERMS: { title: "Provider terms", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** The provider has closed or paused the account, so every request fails until someone settles it with the provider. */
  ACCOUNT_SUSPENDED: { title: "Suspended account", refusal_class: "HARD_BLOCK", advice: "escalate_operator", retry_scope: "session", severity: "critical", decided: true, deprecated: false },
  /** The request asks for, or the answer shows, the hidden instructions of the system. The model's private working is REASONING_EXTRACTION. */
  PROMPT_LEAK: { title: "System prompt leak", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** The request tries to get the model's private working rather than an explanation. The system's instructions are PROMPT_LEAK. */
  REASONING_EXTRACTION: { title: "Reasoning extraction", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "low", decided: true, deprecated: false },
  /** The conversation touches a subject that this deployment has chosen not to discuss, harmful or not. A single listed word is TERM_BLOCKLISTED. */
  TOPIC_DENIED: { title: "Denied topic", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "low", decided: true, deprecated: false },
  /** The text contains a word or phrase on a list kept by the deployment or provider. General swearing is CONTENT_PROFANITY; a whole subject is TOPIC_DENIED. */
  TERM_BLOCKLISTED: { title: "Blocklisted term", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** The request or answer is in a human language that the model or guard cannot handle safely. */
  LANGUAGE_UNSUPPORTED: { title: "Unsupported language", refusal_class: "SOFT_BLOCK", advice: "use_other_model", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** The answer says things that the given sources do not support, or does not address the question. Harmful falsehood is CONTENT_MISINFORMATION. */
  UNGROUNDED: { title: "Ungrounded answer", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false },
  /** A formal check found that the answer contradicts the rules of a policy. When the policy itself cannot be loaded, use POLICY_INVALID. */
  POLICY_LOGIC_INVALID: { title: "Policy contradiction", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** A provider stopped an action because the user may not have meant it, without saying what kind. Prefer a child where the kind is given. */
  ACTION_OTHER: { title: "Unintended action", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false },
  /** A provider refused an action outright as too risky to run on anyone's word. An action that was only held for review is ACTION_OTHER. */
  ACTION_HIGH_RISK: { title: "High-risk action", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** A provider stopped an action that would read data the user may not have meant to open. Data about to be sent out is EXFILTRATION_RISK. */
  DATA_ACCESS_UNINTENDED: { title: "Unintended data access", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false },
  /** The network rules of a sandbox or host do not let this connection out, whatever it carries. Suspicion about the data is EXFILTRATION_RISK. */
  EGRESS_DENIED: { title: "Denied network access", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "rule", severity: "medium", decided: true, deprecated: false },
  /** A required guardrail gave no verdict at all: it failed, timed out or could not be reached. One that ran only some of its checks is GUARDRAIL_PARTIAL. */
  GUARDRAIL_UNAVAILABLE: { title: "Guardrail unavailable", refusal_class: "WORKFLOW_BLOCK", advice: "retry_later", retry_scope: "call", severity: "high", decided: false, deprecated: false },
  /** A guardrail ran some of its checks and not others, or covered only part of the text. If it gave no verdict at all, use GUARDRAIL_UNAVAILABLE. */
  GUARDRAIL_PARTIAL: { title: "Partial guardrail result", refusal_class: "WORKFLOW_BLOCK", advice: "retry_later", retry_scope: "call", severity: "medium", decided: false, deprecated: false },
  /** The decision could not be stored before the answer was due, so nothing may run on it. */
  STORAGE_UNAVAILABLE: { title: "Storage unavailable", refusal_class: "WORKFLOW_BLOCK", advice: "retry_later", retry_scope: "session", severity: "critical", decided: false, deprecated: false },
  /** The policy is missing or cannot be loaded, so nothing can be judged by it. An answer that breaks a sound policy's logic is POLICY_LOGIC_INVALID. */
  POLICY_INVALID: { title: "Invalid policy", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "session", severity: "critical", decided: false, deprecated: false },
  /** A call to a service could not be read, or asked for something that is not there, so nothing was judged. A field that a rule compares and cannot use is EVIDENCE_INVALID. */
  REQUEST_INVALID: { title: "Unusable request", refusal_class: "WORKFLOW_BLOCK", advice: "change_request", retry_scope: "call", severity: "info", decided: false, deprecated: false },
  /** Deciding failed in a way that no other runtime code names, so no verdict was reached. */
  INTERNAL_ERROR: { title: "Internal error", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "call", severity: "critical", decided: false, deprecated: false },
} as const;

/** The codes under names that are identifiers. */
export const Codes = {
  POLICY_VIOLATION: "POLICY_VIOLATION",
  RATE_LIMIT: "RATE_LIMIT",
  UNVERIFIED_TOOL: "UNVERIFIED_TOOL",
  TOOL_NOT_ALLOWED: "TOOL_NOT_ALLOWED",
  RCE_RISK: "RCE_RISK",
  DESTRUCTIVE_ACTION: "DESTRUCTIVE_ACTION",
  IRRECOVERABLE_DESTRUCTION: "IRRECOVERABLE_DESTRUCTION",
  UNAPPROVED_DESTRUCTION: "UNAPPROVED_DESTRUCTION",
  PRIVILEGE_ESCALATION: "PRIVILEGE_ESCALATION",
  EXFILTRATION_RISK: "EXFILTRATION_RISK",
  LOOP_DETECTED: "LOOP_DETECTED",
  BUDGET_EXCEEDED: "BUDGET_EXCEEDED",
  INTEGRITY_FAILURE: "INTEGRITY_FAILURE",
  CONTEXT_INJECTION: "CONTEXT_INJECTION",
  JAILBREAK_WRAPPER: "JAILBREAK_WRAPPER",
  RISKY_IMPORT: "RISKY_IMPORT",
  OBFUSCATED_CODE: "OBFUSCATED_CODE",
  SKILL_INJECTION: "SKILL_INJECTION",
  SECRET_LEAK: "SECRET_LEAK",
  PII_DETECTED: "PII_DETECTED",
  OUTPUT_FORBIDDEN: "OUTPUT_FORBIDDEN",
  CRISIS_ESCALATION: "CRISIS_ESCALATION",
  OBJECTIVE_MALICIOUS: "OBJECTIVE_MALICIOUS",
  SAFETY_EVASION: "SAFETY_EVASION",
  PLATFORM_PROHIBITED: "PLATFORM_PROHIBITED",
  CONTENT_OTHER: "CONTENT_OTHER",
  CONTENT_PRIVACY: "CONTENT_PRIVACY",
  CONTENT_HARASSMENT: "CONTENT_HARASSMENT",
  CONTENT_WEAPONS: "CONTENT_WEAPONS",
  CONTENT_CYBER: "CONTENT_CYBER",
  CONTENT_CBRN: "CONTENT_CBRN",
  CONTENT_SELF_HARM: "CONTENT_SELF_HARM",
  CONTENT_SEXUAL: "CONTENT_SEXUAL",
  CONTENT_CSAE: "CONTENT_CSAE",
  CONTENT_HATE: "CONTENT_HATE",
  CONTENT_VIOLENCE: "CONTENT_VIOLENCE",
  CONTENT_CRIME: "CONTENT_CRIME",
  CONTENT_FRAUD: "CONTENT_FRAUD",
  CONTENT_SOCIAL_ENGINEERING: "CONTENT_SOCIAL_ENGINEERING",
  CONTENT_DANGEROUS: "CONTENT_DANGEROUS",
  CONTENT_ADVICE: "CONTENT_ADVICE",
  CONTENT_ELECTION: "CONTENT_ELECTION",
  CONTENT_DEFAMATION: "CONTENT_DEFAMATION",
  CONTENT_MISINFORMATION: "CONTENT_MISINFORMATION",
  CONTENT_PROFANITY: "CONTENT_PROFANITY",
  AUTHORIZATION_MISSING: "AUTHORIZATION_MISSING",
  PERMISSION_DENIED: "PERMISSION_DENIED",
  SCOPE_MISSING: "SCOPE_MISSING",
  CONTEXT_MISSING: "CONTEXT_MISSING",
  APPROVAL_REQUIRED: "APPROVAL_REQUIRED",
  APPROVAL_DENIED: "APPROVAL_DENIED",
  APPROVAL_LIMIT_EXCEEDED: "APPROVAL_LIMIT_EXCEEDED",
  DETAIL_EXCEEDS_NEED: "DETAIL_EXCEEDS_NEED",
  RISK_REDUCIBLE: "RISK_REDUCIBLE",
  OBJECTIVE_UNCLEAR: "OBJECTIVE_UNCLEAR",
  ELICITATION_DECLINED: "ELICITATION_DECLINED",
  TASK_REJECTED: "TASK_REJECTED",
  NO_MATCH_DEFAULT_ESCALATE: "NO_MATCH_DEFAULT_ESCALATE",
  REFUND_OVER_ESCALATION_LIMIT: "REFUND_OVER_ESCALATION_LIMIT",
  SPEND_OVER_APPROVAL_LIMIT: "SPEND_OVER_APPROVAL_LIMIT",
  RISK_THRESHOLD_EXCEEDED: "RISK_THRESHOLD_EXCEEDED",
  CHARGEBACK_RISK_BLOCK: "CHARGEBACK_RISK_BLOCK",
  ACCOUNT_TAKEOVER_RISK_BLOCK: "ACCOUNT_TAKEOVER_RISK_BLOCK",
  PAYMENT_INSTRUMENT_HIGH_RISK: "PAYMENT_INSTRUMENT_HIGH_RISK",
  FRAUD_MODEL_HIGH_RISK: "FRAUD_MODEL_HIGH_RISK",
  PATTERN_ANOMALY_DETECTED: "PATTERN_ANOMALY_DETECTED",
  REFUND_PATTERN_ANOMALY: "REFUND_PATTERN_ANOMALY",
  MISSING_EVIDENCE_REFUND: "MISSING_EVIDENCE_REFUND",
  EVIDENCE_INVALID: "EVIDENCE_INVALID",
  FAILURE_MEMORY_SIMILAR_BLOCK: "FAILURE_MEMORY_SIMILAR_BLOCK",
  FAILURE_MEMORY_SIMILAR_ESCALATE: "FAILURE_MEMORY_SIMILAR_ESCALATE",
  SUCCESS_MEMORY_SIMILAR_ALLOW: "SUCCESS_MEMORY_SIMILAR_ALLOW",
  IDEMPOTENCY_CONFLICT: "IDEMPOTENCY_CONFLICT",
  OLD_FRAUD_BLOCK: "OLD_FRAUD_BLOCK",
  MODEL_DECLINED: "MODEL_DECLINED",
  FILTERED_UNSPECIFIED: "FILTERED_UNSPECIFIED",
  IP_PROTECTED: "IP_PROTECTED",
  IP_RECITATION: "IP_RECITATION",
  PROVIDER_TERMS: "PROVIDER_TERMS",
  ACCOUNT_SUSPENDED: "ACCOUNT_SUSPENDED",
  PROMPT_LEAK: "PROMPT_LEAK",
  REASONING_EXTRACTION: "REASONING_EXTRACTION",
  TOPIC_DENIED: "TOPIC_DENIED",
  TERM_BLOCKLISTED: "TERM_BLOCKLISTED",
  LANGUAGE_UNSUPPORTED: "LANGUAGE_UNSUPPORTED",
  UNGROUNDED: "UNGROUNDED",
  POLICY_LOGIC_INVALID: "POLICY_LOGIC_INVALID",
  ACTION_OTHER: "ACTION_OTHER",
  ACTION_HIGH_RISK: "ACTION_HIGH_RISK",
  DATA_ACCESS_UNINTENDED: "DATA_ACCESS_UNINTENDED",
  EGRESS_DENIED: "EGRESS_DENIED",
  GUARDRAIL_UNAVAILABLE: "GUARDRAIL_UNAVAILABLE",
  GUARDRAIL_PARTIAL: "GUARDRAIL_PARTIAL",
  STORAGE_UNAVAILABLE: "STORAGE_UNAVAILABLE",
  POLICY_INVALID: "POLICY_INVALID",
  REQUEST_INVALID: "REQUEST_INVALID",
  INTERNAL_ERROR: "INTERNAL_ERROR",
} as const;

/** A reason code of this registry. */
export type ReasonCode = keyof typeof REASON_CODES;

/** A reason code of this registry, or one that it does not know; known ones are completed. */
export type AnyReasonCode = ReasonCode | (string & {});

/** Tells whether a text is a reason code of this registry. */
export function isReasonCode(value: string): value is ReasonCode {
  return Object.prototype.hasOwnProperty.call(REASON_CODES, value);
}

/** Returns what the registry says about a code, or undefined if it does not know the code. */
export function reasonCodeInfo(code: ReasonCode): ReasonCodeInfo;
export function reasonCodeInfo(code: AnyReasonCode): ReasonCodeInfo | undefined;
export function reasonCodeInfo(code: string): ReasonCodeInfo | undefined {
  return isReasonCode(code) ? REASON_CODES[code] : undefined;
}
