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
  readonly effect: Effect;
  readonly stability: Stability;
  /** The wider code that it is a kind of, if any. */
  readonly parent: string | null;
  /** The code to use instead of a deprecated one, if there is one. */
  readonly replacement: string | null;
  readonly obligations: readonly Obligation[];
}

/** Every reason code. Organisations' codes stand under `domain/CODE`. */
export const REASON_CODES = {
  /** A rule of the deployment forbids this and no narrower code names the rule. Use it only when none of its children fits. */
  POLICY_VIOLATION: { title: "Policy violation", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** Too many requests, calls or tokens arrived in one time window. Waiting is enough; when a total allowance is spent, use BUDGET_EXCEEDED. */
  RATE_LIMIT: { title: "Rate limit", refusal_class: "WORKFLOW_BLOCK", advice: "retry_later", retry_scope: "session", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The tool's definition or origin does not match what was pinned, or was never pinned at all. A known tool that is merely not permitted is TOOL_NOT_ALLOWED. */
  UNVERIFIED_TOOL: { title: "Unverified tool", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** The tool is known, but the allow-list for this agent or user does not include it or these arguments. If the tool itself cannot be trusted, use UNVERIFIED_TOOL. */
  TOOL_NOT_ALLOWED: { title: "Disallowed tool", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** Code or data from outside would be run without anyone having read it, such as a download piped to a shell or an untrusted object unpickled. */
  RCE_RISK: { title: "Remote code execution", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** If this ran, data would be lost for good: erased, wiped or overwritten without a copy. Reading or listing the same data is not covered. */
  DESTRUCTIVE_ACTION: { title: "Destructive action", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** If this ran, a whole machine or everything that a person owns on it would be gone: the root of the file system, a whole home folder or a block device. Other losses are UNAPPROVED_DESTRUCTION. */
  IRRECOVERABLE_DESTRUCTION: { title: "Irrecoverable destruction", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "DESTRUCTIVE_ACTION", replacement: null, obligations: [] },
  /** If this ran, some data would be lost for good, and nobody who may decide that has approved it. The loss of a whole machine or home is IRRECOVERABLE_DESTRUCTION. */
  UNAPPROVED_DESTRUCTION: { title: "Destruction without approval", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "DESTRUCTIVE_ACTION", replacement: null, obligations: [] },
  /** The action would gain rights that the agent does not hold now, such as becoming root or widening a role. A call that merely lacks a right is PERMISSION_DENIED. */
  PRIVILEGE_ESCALATION: { title: "Privilege escalation", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** Private data would leave for a place outside the trust boundary. A secret printed in an answer is SECRET_LEAK; a host the network rules forbid is EGRESS_DENIED. */
  EXFILTRATION_RISK: { title: "Exfiltration risk", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** The agent repeats the same calls, or a cycle of calls, without progress. Many different calls that use up an allowance are BUDGET_EXCEEDED. */
  LOOP_DETECTED: { title: "Tool loop", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "session", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** A total allowance of money, tokens, steps or time for this task or account is used up. Waiting does not bring it back, unlike RATE_LIMIT. */
  BUDGET_EXCEEDED: { title: "Budget used up", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "session", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** Pinned rules or stored context are not what was sealed earlier: a seal does not verify or a pinned part is gone. New instructions in the text are CONTEXT_INJECTION. */
  INTEGRITY_FAILURE: { title: "Context integrity failure", refusal_class: "HARD_BLOCK", advice: "reset_context", retry_scope: "session", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** Text that should be data gives the model orders, or tries to replace its instructions, whether a user typed it or it came from a page, tool or document. Hidden in a skill it is SKILL_INJECTION. */
  CONTEXT_INJECTION: { title: "Context injection", refusal_class: "SOFT_BLOCK", advice: "reset_context", retry_scope: "session", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** A persona, game, fiction or encoding is wrapped around the request to loosen the model's rules. It names the form only; a stated aim to defeat safeguards is SAFETY_EVASION. */
  JAILBREAK_WRAPPER: { title: "Jailbreak wrapper", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** Code brings in a module that can start processes, open sockets or reach native memory, and nothing declares the need. Code that already runs foreign input is RCE_RISK. */
  RISKY_IMPORT: { title: "Risky import", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** Code hides what it does: a decoded, decompressed or assembled string is executed. Decoding data without executing it is not covered. */
  OBFUSCATED_CODE: { title: "Obfuscated code", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** A skill, plugin or tool description carries hidden orders for the model that its user does not see. Orders in ordinary content are CONTEXT_INJECTION. */
  SKILL_INJECTION: { title: "Skill injection", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTEXT_INJECTION", replacement: null, obligations: [] },
  /** A key, password, token or other credential stands in text that is about to be shown, sent or stored. Data about a person is PII_DETECTED. */
  SECRET_LEAK: { title: "Secret leak", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** The text contains data that identifies a person, such as a card, account or identity number. A wish to spy on or expose someone is CONTENT_PRIVACY. */
  PII_DETECTED: { title: "Personal data", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** The model's answer matches a pattern that must never leave, whatever was asked. A credential in an answer is SECRET_LEAK. */
  OUTPUT_FORBIDDEN: { title: "Forbidden output", refusal_class: "HARD_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** Someone seems to be in immediate danger of harming themselves or another, so a human and help lines are brought in. A request for methods alone is CONTENT_SELF_HARM. */
  CRISIS_ESCALATION: { title: "Person in crisis", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "session", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: ["human_review", "crisis_resources"] },
  /** The stated aim is to harm or rob someone, or to act without their authority, whatever the topic. When only the kind of content is known, use a CONTENT code. */
  OBJECTIVE_MALICIOUS: { title: "Malicious objective", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The stated aim is to switch off, get around or hide from a safeguard. It names an intent; an odd form without that intent is JAILBREAK_WRAPPER. */
  SAFETY_EVASION: { title: "Safety evasion", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "session", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The platform forbids this content for everybody and no setting or contract lifts it. A limit in a customer's agreement is PROVIDER_TERMS. */
  PLATFORM_PROHIBITED: { title: "Platform prohibition", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** Content was judged harmful, but its kind is not given or has no code of its own. Prefer a child; if not even harm is stated, use FILTERED_UNSPECIFIED. */
  CONTENT_OTHER: { title: "Harmful content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The request or answer would spy on, locate, expose or profile a person without consent. Personal data merely present in text is PII_DETECTED. */
  CONTENT_PRIVACY: { title: "Privacy intrusion", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content bullies, threatens, insults or intimidates a particular person. Attacks on a group for what its members are count as CONTENT_HATE. */
  CONTENT_HARASSMENT: { title: "Harassing content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content would help someone make, alter or obtain weapons or explosives. Weapons of mass harm have the narrower CONTENT_CBRN. */
  CONTENT_WEAPONS: { title: "Weapons content", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content would help attack computers, networks or accounts, for example with malware or by breaking in. Teaching defence is not covered. */
  CONTENT_CYBER: { title: "Cyber attack", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content would help make or use chemical, biological, radiological or nuclear weapons. Conventional arms and explosives are CONTENT_WEAPONS. */
  CONTENT_CBRN: { title: "Weapons of mass harm", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_WEAPONS", replacement: null, obligations: [] },
  /** Content describes, praises or asks for ways to hurt or kill oneself. When a person seems to be in danger now, use CRISIS_ESCALATION. */
  CONTENT_SELF_HARM: { title: "Self-harm content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: ["crisis_resources"] },
  /** Content is sexually explicit, or sexualises an adult who has not consented. Anything that involves a minor is CONTENT_CSAE. */
  CONTENT_SEXUAL: { title: "Sexual content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content sexualises a minor, or would help abuse or exploit one. No constraint makes it acceptable. */
  CONTENT_CSAE: { title: "Child sexual exploitation", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_SEXUAL", replacement: null, obligations: [] },
  /** Content demeans or attacks people for what they are, such as their origin, faith, sex or disability. Attacks on one person for other reasons are CONTENT_HARASSMENT. */
  CONTENT_HATE: { title: "Hateful content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content calls for, plans or graphically celebrates physical violence against people or animals. The means of violence are CONTENT_WEAPONS. */
  CONTENT_VIOLENCE: { title: "Violent content", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content would help commit a crime without violence, such as theft, smuggling or dealing. Deceit for money is the narrower CONTENT_FRAUD. */
  CONTENT_CRIME: { title: "Criminal activity", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content would help gain money or goods by deceit, such as forged papers or false claims. Talking a person out of secrets or access is CONTENT_SOCIAL_ENGINEERING. */
  CONTENT_FRAUD: { title: "Fraudulent scheme", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_CRIME", replacement: null, obligations: [] },
  /** Content would manipulate or impersonate someone to win secrets, access or a harmful act, as in phishing. Deceit that only takes money is CONTENT_FRAUD. */
  CONTENT_SOCIAL_ENGINEERING: { title: "Social engineering", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content encourages acts likely to injure people by accident or recklessness, such as dares or unsafe experiments. Intended harm has its own CONTENT codes. */
  CONTENT_DANGEROUS: { title: "Dangerous activity", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** The answer would give personal medical, legal or financial advice that calls for a qualified person. General information on the subject is not covered. */
  CONTENT_ADVICE: { title: "Professional advice", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content would mislead voters or disturb a vote, or a provider declines election topics as a whole. Other false claims are CONTENT_MISINFORMATION. */
  CONTENT_ELECTION: { title: "Election interference", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content states falsehoods that would damage the name of a real, identifiable person or body. Insults without a factual claim are CONTENT_HARASSMENT. */
  CONTENT_DEFAMATION: { title: "Defamatory claim", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** Content presents false claims as fact in a way that could harm the public. An answer that lacks support in its own sources is UNGROUNDED. */
  CONTENT_MISINFORMATION: { title: "False information", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** The text uses swear words or crude language that the deployment does not want. A word on a custom list is TERM_BLOCKLISTED. */
  CONTENT_PROFANITY: { title: "Profane language", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTENT_OTHER", replacement: null, obligations: [] },
  /** The action needs proof of authority and none was given. Proof that was given but does not reach this far is PERMISSION_DENIED. */
  AUTHORIZATION_MISSING: { title: "Missing authorisation", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The caller is known, but the rights shown do not cover this action or resource. If no proof was shown at all, use AUTHORIZATION_MISSING. */
  PERMISSION_DENIED: { title: "Permission denied", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The request does not say which targets, limits or boundaries it applies to. Scopes of an access token are a matter of PERMISSION_DENIED. */
  SCOPE_MISSING: { title: "Missing scope", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A fact needed to decide or to carry on was not supplied. A missing target or boundary is SCOPE_MISSING. */
  CONTEXT_MISSING: { title: "Missing context", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A person must agree before this action runs, and nobody has answered yet. Once someone has said no, use APPROVAL_DENIED. */
  APPROVAL_REQUIRED: { title: "Approval required", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A person was asked to agree to this action and said no. If nobody has answered yet, use APPROVAL_REQUIRED. */
  APPROVAL_DENIED: { title: "Approval denied", refusal_class: "WORKFLOW_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The amount or extent goes beyond what the caller may decide alone. Refunds and spending have narrower codes. */
  APPROVAL_LIMIT_EXCEEDED: { title: "Approval limit exceeded", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "APPROVAL_REQUIRED", replacement: null, obligations: [] },
  /** The aim is legitimate, but the detail asked for goes further than the aim needs. A shorter or more general answer can be given. */
  DETAIL_EXCEEDS_NEED: { title: "Excessive detail", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The action is acceptable in principle, but in this form it is too risky. Named limits, such as a smaller range or a dry run, would bring the risk down. */
  RISK_REDUCIBLE: { title: "Reducible risk", refusal_class: "SOFT_BLOCK", advice: "accept_constraints", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** What the caller wants to achieve cannot be told from the request, so it can be judged neither safe nor harmful. A single absent fact is CONTEXT_MISSING. */
  OBJECTIVE_UNCLEAR: { title: "Unclear objective", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTEXT_MISSING", replacement: null, obligations: [] },
  /** A tool asked the user for information and the user declined or closed the question. A no to running the action is APPROVAL_DENIED. */
  ELICITATION_DECLINED: { title: "Declined question", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTEXT_MISSING", replacement: null, obligations: [] },
  /** Another agent or service refused to take on the task that was handed to it, and gave no reason with a code of its own. */
  TASK_REJECTED: { title: "Rejected task", refusal_class: "WORKFLOW_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** No rule of the policy covered the request, so its default applied and a person must decide. */
  NO_MATCH_DEFAULT_ESCALATE: { title: "No matching rule", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The refund is larger than the agent may pay out without a person. */
  REFUND_OVER_ESCALATION_LIMIT: { title: "Refund over limit", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "APPROVAL_LIMIT_EXCEEDED", replacement: null, obligations: [] },
  /** The purchase or payment is larger than may be made without approval. */
  SPEND_OVER_APPROVAL_LIMIT: { title: "Spend over limit", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "APPROVAL_LIMIT_EXCEEDED", replacement: null, obligations: [] },
  /** A risk score rose above the threshold that the policy sets. Use a child when the kind of risk is known. */
  RISK_THRESHOLD_EXCEEDED: { title: "Risk threshold exceeded", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The payment is too likely to be disputed and reversed, so the action is refused. */
  CHARGEBACK_RISK_BLOCK: { title: "Chargeback risk", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "RISK_THRESHOLD_EXCEEDED", replacement: null, obligations: [] },
  /** Signs show that someone other than the owner controls the account, so nothing more is done in this session. */
  ACCOUNT_TAKEOVER_RISK_BLOCK: { title: "Account takeover risk", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "session", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "RISK_THRESHOLD_EXCEEDED", replacement: null, obligations: [] },
  /** The card, account or wallet to be used is itself rated as risky, for example reported stolen. A risky transaction is FRAUD_MODEL_HIGH_RISK. */
  PAYMENT_INSTRUMENT_HIGH_RISK: { title: "Risky payment instrument", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "RISK_THRESHOLD_EXCEEDED", replacement: null, obligations: [] },
  /** A fraud model rated the transaction as risky and gave no narrower cause. If likely dispute is the cause, use CHARGEBACK_RISK_BLOCK. */
  FRAUD_MODEL_HIGH_RISK: { title: "High fraud score", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "RISK_THRESHOLD_EXCEEDED", replacement: null, obligations: [] },
  /** Recent behaviour differs from what is usual for this user or agent, without proof of anything wrong. */
  PATTERN_ANOMALY_DETECTED: { title: "Unusual pattern", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The number, timing or size of refunds differs from what is usual for this customer. One refund that is too large is REFUND_OVER_ESCALATION_LIMIT. */
  REFUND_PATTERN_ANOMALY: { title: "Unusual refund pattern", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "PATTERN_ANOMALY_DETECTED", replacement: null, obligations: [] },
  /** The refund needs proof, such as an order or a ticket, that was not supplied. Proof that cannot be read is EVIDENCE_INVALID. */
  MISSING_EVIDENCE_REFUND: { title: "Missing refund evidence", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "CONTEXT_MISSING", replacement: null, obligations: [] },
  /** A field that a rule compares is there but cannot be used: wrong type, not a number, or unreadable. A field that is absent is CONTEXT_MISSING. */
  EVIDENCE_INVALID: { title: "Invalid evidence", refusal_class: "WORKFLOW_BLOCK", advice: "provide_context", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The request closely resembles one that was labelled a failure, near enough to be refused outright. A weaker likeness is FAILURE_MEMORY_SIMILAR_ESCALATE. */
  FAILURE_MEMORY_SIMILAR_BLOCK: { title: "Close failure match", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The request resembles one that was labelled a failure, enough for a person to look at it. A closer likeness is FAILURE_MEMORY_SIMILAR_BLOCK. */
  FAILURE_MEMORY_SIMILAR_ESCALATE: { title: "Similar past failure", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The request closely resembles one that was labelled a success, so an escalation was lifted. It never lifts a denial. */
  SUCCESS_MEMORY_SIMILAR_ALLOW: { title: "Similar past success", refusal_class: null, advice: null, retry_scope: null, severity: "info", decided: true, deprecated: false, effect: "allow", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A request id that was already decided came back with a different body. Repeating a request unchanged is no conflict. */
  IDEMPOTENCY_CONFLICT: { title: "Reused request id", refusal_class: "WORKFLOW_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /**
   * Older general code for payments refused as fraud. New decisions use CHARGEBACK_RISK_BLOCK; records that carry this one keep their meaning.
   * @deprecated Use CHARGEBACK_RISK_BLOCK instead.
   */
  OLD_FRAUD_BLOCK: { title: "Old fraud block", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: true, effect: "refuse", stability: "deprecated", parent: "RISK_THRESHOLD_EXCEEDED", replacement: "CHARGEBACK_RISK_BLOCK", obligations: [] },
  /** The model itself chose not to answer and gave no category. A filter around the model is FILTERED_UNSPECIFIED. */
  MODEL_DECLINED: { title: "Model declined", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A provider's filter stopped the request or answer and did not say why. A model that declines in its own words is MODEL_DECLINED. */
  FILTERED_UNSPECIFIED: { title: "Unexplained filter", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The request or answer would misuse a work, mark or likeness that others hold rights in. Word-for-word copies are IP_RECITATION. */
  IP_PROTECTED: { title: "Protected work", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The answer would repeat a published text or piece of code almost word for word. Other uses of protected work are IP_PROTECTED. */
  IP_RECITATION: { title: "Recited source", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "IP_PROTECTED", replacement: null, obligations: [] },
  /** The provider's contract forbids this use to this customer or in this place, harmful or not, such as training a rival model. Rules for everybody are PLATFORM_PROHIBITED. */
  PROVIDER_TERMS: { title: "Provider terms", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The provider has closed or paused the account, so every request fails until someone settles it with the provider. */
  ACCOUNT_SUSPENDED: { title: "Suspended account", refusal_class: "HARD_BLOCK", advice: "escalate_operator", retry_scope: "session", severity: "critical", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The request asks for, or the answer shows, the hidden instructions of the system. The model's private working is REASONING_EXTRACTION. */
  PROMPT_LEAK: { title: "System prompt leak", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The request tries to get the model's private working rather than an explanation. The system's instructions are PROMPT_LEAK. */
  REASONING_EXTRACTION: { title: "Reasoning extraction", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The conversation touches a subject that this deployment has chosen not to discuss, harmful or not. A single listed word is TERM_BLOCKLISTED. */
  TOPIC_DENIED: { title: "Denied topic", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "rule", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** The text contains a word or phrase on a list kept by the deployment or provider. General swearing is CONTENT_PROFANITY; a whole subject is TOPIC_DENIED. */
  TERM_BLOCKLISTED: { title: "Blocklisted term", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** The request or answer is in a human language that the model or guard cannot handle safely. */
  LANGUAGE_UNSUPPORTED: { title: "Unsupported language", refusal_class: "SOFT_BLOCK", advice: "use_other_model", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The answer says things that the given sources do not support, or does not address the question. Harmful falsehood is CONTENT_MISINFORMATION. */
  UNGROUNDED: { title: "Ungrounded answer", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "low", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A formal check found that the answer contradicts the rules of a policy. When the policy itself cannot be loaded, use POLICY_INVALID. */
  POLICY_LOGIC_INVALID: { title: "Policy contradiction", refusal_class: "SOFT_BLOCK", advice: "change_request", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A provider stopped an action because the user may not have meant it, without saying what kind. Prefer a child where the kind is given. */
  ACTION_OTHER: { title: "Unintended action", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "call", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A provider refused an action outright as too risky to run on anyone's word. An action that was only held for review is ACTION_OTHER. */
  ACTION_HIGH_RISK: { title: "High-risk action", refusal_class: "HARD_BLOCK", advice: "do_not_retry", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "ACTION_OTHER", replacement: null, obligations: [] },
  /** A provider stopped an action that would read data the user may not have meant to open. Data about to be sent out is EXFILTRATION_RISK. */
  DATA_ACCESS_UNINTENDED: { title: "Unintended data access", refusal_class: "WORKFLOW_BLOCK", advice: "request_approval", retry_scope: "rule", severity: "high", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "ACTION_OTHER", replacement: null, obligations: [] },
  /** The network rules of a sandbox or host do not let this connection out, whatever it carries. Suspicion about the data is EXFILTRATION_RISK. */
  EGRESS_DENIED: { title: "Denied network access", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "rule", severity: "medium", decided: true, deprecated: false, effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", replacement: null, obligations: [] },
  /** A required guardrail gave no verdict at all: it failed, timed out or could not be reached. One that ran only some of its checks is GUARDRAIL_PARTIAL. */
  GUARDRAIL_UNAVAILABLE: { title: "Guardrail unavailable", refusal_class: "WORKFLOW_BLOCK", advice: "retry_later", retry_scope: "call", severity: "high", decided: false, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A guardrail ran some of its checks and not others, or covered only part of the text. If it gave no verdict at all, use GUARDRAIL_UNAVAILABLE. */
  GUARDRAIL_PARTIAL: { title: "Partial guardrail result", refusal_class: "WORKFLOW_BLOCK", advice: "retry_later", retry_scope: "call", severity: "medium", decided: false, deprecated: false, effect: "refuse", stability: "stable", parent: "GUARDRAIL_UNAVAILABLE", replacement: null, obligations: [] },
  /** The decision could not be stored before the answer was due, so nothing may run on it. */
  STORAGE_UNAVAILABLE: { title: "Storage unavailable", refusal_class: "WORKFLOW_BLOCK", advice: "retry_later", retry_scope: "session", severity: "critical", decided: false, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** The policy is missing or cannot be loaded, so nothing can be judged by it. An answer that breaks a sound policy's logic is POLICY_LOGIC_INVALID. */
  POLICY_INVALID: { title: "Invalid policy", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "session", severity: "critical", decided: false, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** A call to a service could not be read, or asked for something that is not there, so nothing was judged. A field that a rule compares and cannot use is EVIDENCE_INVALID. */
  REQUEST_INVALID: { title: "Unusable request", refusal_class: "WORKFLOW_BLOCK", advice: "change_request", retry_scope: "call", severity: "info", decided: false, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
  /** Deciding failed in a way that no other runtime code names, so no verdict was reached. */
  INTERNAL_ERROR: { title: "Internal error", refusal_class: "WORKFLOW_BLOCK", advice: "escalate_operator", retry_scope: "call", severity: "critical", decided: false, deprecated: false, effect: "refuse", stability: "stable", parent: null, replacement: null, obligations: [] },
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

/** The legacy phrases that name a code in a text without a refusal line, folded to lower case. */
export const LEGACY_PHRASES = {
  "a potential loop was detected": "LOOP_DETECTED",
  "accessdeniedexception": "PERMISSION_DENIED",
  "account has been deactivated": "ACCOUNT_SUSPENDED",
  "account has been suspended": "ACCOUNT_SUSPENDED",
  "account takeover risk too high": "ACCOUNT_TAKEOVER_RISK_BLOCK",
  "account_deactivated": "ACCOUNT_SUSPENDED",
  "action requires approval": "APPROVAL_REQUIRED",
  "agent got stuck in a loop": "LOOP_DETECTED",
  "agent stopped due to iteration limit": "BUDGET_EXCEEDED",
  "agent stopped due to max iterations": "BUDGET_EXCEEDED",
  "agentstuckinlooperror": "LOOP_DETECTED",
  "appears to violate our usage policy": "CONTENT_OTHER",
  "approval denied": "APPROVAL_DENIED",
  "approval is required": "APPROVAL_REQUIRED",
  "approval required": "APPROVAL_REQUIRED",
  "approval was denied": "APPROVAL_DENIED",
  "as an ai language model, i can't": "MODEL_DECLINED",
  "as an ai language model, i cannot": "MODEL_DECLINED",
  "as an ai language model, i can’t": "MODEL_DECLINED",
  "awaiting human approval": "APPROVAL_REQUIRED",
  "banned substring": "TERM_BLOCKLISTED",
  "billing hard limit has been reached": "BUDGET_EXCEEDED",
  "blocked by a guardrail": "POLICY_VIOLATION",
  "blocked by content filtering policy": "CONTENT_OTHER",
  "blocked by dlp policy": "EXFILTRATION_RISK",
  "blocked by guardrail": "POLICY_VIOLATION",
  "blocked by model armor": "FILTERED_UNSPECIFIED",
  "blocked by policy": "POLICY_VIOLATION",
  "blocked by the guardrail": "POLICY_VIOLATION",
  "blocked by the safety filters": "CONTENT_OTHER",
  "blocked by your organization's policy": "POLICY_VIOLATION",
  "blocked due to pii": "PII_DETECTED",
  "blocked due to suspicious activity": "PATTERN_ANOMALY_DETECTED",
  "blocked-by-allowlist": "EGRESS_DENIED",
  "blocked: prompt injection": "CONTEXT_INJECTION",
  "blockedpiientityerror": "PII_DETECTED",
  "blockedreason.blocklist": "TERM_BLOCKLISTED",
  "blockedreason.jailbreak": "JAILBREAK_WRAPPER",
  "blockedreason.safety": "CONTENT_OTHER",
  "budget exceeded": "BUDGET_EXCEEDED",
  "budget has been exceeded": "BUDGET_EXCEEDED",
  "but you haven't granted it yet": "APPROVAL_REQUIRED",
  "cannot comply": "MODEL_DECLINED",
  "chargeback risk too high": "CHARGEBACK_RISK_BLOCK",
  "code execution blocked": "RCE_RISK",
  "consumer_suspended": "ACCOUNT_SUSPENDED",
  "contains custom code which must be executed to correctly load": "RCE_RISK",
  "content policy violation": "CONTENT_OTHER",
  "content_filter_error": "GUARDRAIL_UNAVAILABLE",
  "content_policy_violation": "CONTENT_OTHER",
  "contentfilterfinishreasonerror": "FILTERED_UNSPECIFIED",
  "contentpolicyviolationerror": "CONTENT_OTHER",
  "context injection detected": "CONTEXT_INJECTION",
  "country, region, or territory not supported": "PROVIDER_TERMS",
  "credit balance is too low": "BUDGET_EXCEEDED",
  "crisis intervention required": "CRISIS_ESCALATION",
  "dangerous import": "RISKY_IMPORT",
  "denied by policy": "POLICY_VIOLATION",
  "destructive action blocked": "DESTRUCTIVE_ACTION",
  "destructive action denied": "DESTRUCTIVE_ACTION",
  "destructive command blocked": "DESTRUCTIVE_ACTION",
  "destructive operation blocked": "DESTRUCTIVE_ACTION",
  "disallowed by policy": "POLICY_VIOLATION",
  "disallowed import": "RISKY_IMPORT",
  "disallowed tool": "TOOL_NOT_ALLOWED",
  "egress blocked": "EGRESS_DENIED",
  "egress denied": "EGRESS_DENIED",
  "elicitation declined": "ELICITATION_DECLINED",
  "error_max_budget_usd": "BUDGET_EXCEEDED",
  "error_max_turns": "BUDGET_EXCEEDED",
  "error_toxic": "CONTENT_OTHER",
  "exceeded rate limit": "RATE_LIMIT",
  "exceeded the rate limit": "RATE_LIMIT",
  "exceeded your current quota": "BUDGET_EXCEEDED",
  "exceededbudget": "BUDGET_EXCEEDED",
  "exceeds your approval limit": "APPROVAL_LIMIT_EXCEEDED",
  "exec command rejected by user": "APPROVAL_DENIED",
  "exfiltration attempt": "EXFILTRATION_RISK",
  "exfiltration blocked": "EXFILTRATION_RISK",
  "exfiltration detected": "EXFILTRATION_RISK",
  "failed to persist decision": "STORAGE_UNAVAILABLE",
  "filtered due to the prompt triggering": "FILTERED_UNSPECIFIED",
  "finishreason.blocklist": "TERM_BLOCKLISTED",
  "finishreason.image_safety": "CONTENT_OTHER",
  "finishreason.language": "LANGUAGE_UNSUPPORTED",
  "finishreason.recitation": "IP_RECITATION",
  "finishreason.safety": "CONTENT_OTHER",
  "finishreason.spii": "PII_DETECTED",
  "forbidden access to module": "RISKY_IMPORT",
  "forbidden by policy": "POLICY_VIOLATION",
  "forbidden function evaluation": "RCE_RISK",
  "forbidden import": "RISKY_IMPORT",
  "forbidden tool": "TOOL_NOT_ALLOWED",
  "fraud detection model flagged high risk": "FRAUD_MODEL_HIGH_RISK",
  "generated_image_minors": "CONTENT_CSAE",
  "guardrail blocked": "POLICY_VIOLATION",
  "guardrail triggered": "POLICY_VIOLATION",
  "guardrail unavailable": "GUARDRAIL_UNAVAILABLE",
  "guardrail violation": "POLICY_VIOLATION",
  "guardrail_failed_to_respond": "GUARDRAIL_UNAVAILABLE",
  "guardrail_intervened": "FILTERED_UNSPECIFIED",
  "guardrails_violation": "POLICY_VIOLATION",
  "guardrailtripwiretriggered": "POLICY_VIOLATION",
  "i am not able to help with": "MODEL_DECLINED",
  "i can't assist with that": "MODEL_DECLINED",
  "i can't help with responses on elections and political figures": "CONTENT_ELECTION",
  "i can't help with that": "MODEL_DECLINED",
  "i can't help with this request": "MODEL_DECLINED",
  "i can't provide financial advice": "CONTENT_ADVICE",
  "i can't provide legal advice": "CONTENT_ADVICE",
  "i can't provide medical advice": "CONTENT_ADVICE",
  "i cannot assist with": "MODEL_DECLINED",
  "i cannot help with that": "MODEL_DECLINED",
  "i cannot provide financial advice": "CONTENT_ADVICE",
  "i cannot provide legal advice": "CONTENT_ADVICE",
  "i cannot provide medical advice": "CONTENT_ADVICE",
  "i can’t assist with that": "MODEL_DECLINED",
  "i can’t help with responses on elections and political figures": "CONTENT_ELECTION",
  "i can’t help with that": "MODEL_DECLINED",
  "i can’t help with this request": "MODEL_DECLINED",
  "i can’t provide financial advice": "CONTENT_ADVICE",
  "i can’t provide legal advice": "CONTENT_ADVICE",
  "i can’t provide medical advice": "CONTENT_ADVICE",
  "i must respectfully decline": "MODEL_DECLINED",
  "i'm not able to assist with": "MODEL_DECLINED",
  "i'm not able to help with": "MODEL_DECLINED",
  "i'm sorry, i can't respond to that": "MODEL_DECLINED",
  "i'm unable to assist with": "MODEL_DECLINED",
  "i'm unable to help with": "MODEL_DECLINED",
  "idempotency_error": "IDEMPOTENCY_CONFLICT",
  "idempotentparametermismatch": "IDEMPOTENCY_CONFLICT",
  "importerror: __import__ not found": "RISKY_IMPORT",
  "indirect prompt injection": "CONTEXT_INJECTION",
  "input_image_photo_realistic_child_prohibited": "CONTENT_CSAE",
  "input_ip_prohibited": "IP_PROTECTED",
  "input_text_ncii_prohibited": "CONTENT_SEXUAL",
  "insufficient authentication scopes": "PERMISSION_DENIED",
  "insufficient_quota": "BUDGET_EXCEEDED",
  "insufficient_scope": "PERMISSION_DENIED",
  "integrity check failed": "INTEGRITY_FAILURE",
  "integrity failure": "INTEGRITY_FAILURE",
  "integrity verification failed": "INTEGRITY_FAILURE",
  "integrity violation": "INTEGRITY_FAILURE",
  "is not allowed. authorized imports are": "RISKY_IMPORT",
  "is not authorized to perform": "PERMISSION_DENIED",
  "is not in the sudoers file": "PRIVILEGE_ESCALATION",
  "it is dangerous to operate recursively on": "DESTRUCTIVE_ACTION",
  "i’m not able to assist with": "MODEL_DECLINED",
  "i’m not able to help with": "MODEL_DECLINED",
  "i’m sorry, i can’t respond to that": "MODEL_DECLINED",
  "i’m unable to assist with": "MODEL_DECLINED",
  "i’m unable to help with": "MODEL_DECLINED",
  "jailbreak attempt": "JAILBREAK_WRAPPER",
  "jailbreak blocked": "JAILBREAK_WRAPPER",
  "jailbreak detected": "JAILBREAK_WRAPPER",
  "keys for idempotent requests can only be used with the same parameters": "IDEMPOTENCY_CONFLICT",
  "loop detected": "LOOP_DETECTED",
  "matched a denied topic": "TOPIC_DENIED",
  "maxturnsexceeded": "BUDGET_EXCEEDED",
  "misalignment_policy_violation": "ACTION_OTHER",
  "missing required evidence for refund": "MISSING_EVIDENCE_REFUND",
  "missing required scope": "PERMISSION_DENIED",
  "modelrefusalerror": "MODEL_DECLINED",
  "moderation_blocked": "CONTENT_OTHER",
  "no policy rule matched": "NO_MATCH_DEFAULT_ESCALATE",
  "not allowed by policy": "POLICY_VIOLATION",
  "not allowed for this agent": "TOOL_NOT_ALLOWED",
  "not in the list of allowed tools": "TOOL_NOT_ALLOWED",
  "not permitted by policy": "POLICY_VIOLATION",
  "not permitted for this agent": "TOOL_NOT_ALLOWED",
  "obfuscated code detected": "OBFUSCATED_CODE",
  "organization has been disabled": "ACCOUNT_SUSPENDED",
  "organization_on_hold": "ACCOUNT_SUSPENDED",
  "output contains forbidden content": "OUTPUT_FORBIDDEN",
  "payment instrument risk too high": "PAYMENT_INSTRUMENT_HIGH_RISK",
  "permission denied by policy": "PERMISSION_DENIED",
  "permission to use bash has been denied": "TOOL_NOT_ALLOWED",
  "piidetectionerror": "PII_DETECTED",
  "please return profanity-free output": "CONTENT_PROFANITY",
  "policy violation": "POLICY_VIOLATION",
  "possible prompt injection": "CONTEXT_INJECTION",
  "potential crisis - requires human intervention": "CRISIS_ESCALATION",
  "potential nsfw content was detected": "CONTENT_SEXUAL",
  "potential secrets about to be committed": "SECRET_LEAK",
  "potentially_unintended_data_access": "DATA_ACCESS_UNINTENDED",
  "potentially_unintended_data_transfer": "EXFILTRATION_RISK",
  "potentially_unintended_destructive_activity": "DESTRUCTIVE_ACTION",
  "privilege escalation attempt": "PRIVILEGE_ESCALATION",
  "privilege escalation blocked": "PRIVILEGE_ESCALATION",
  "privilege escalation denied": "PRIVILEGE_ESCALATION",
  "privilege escalation detected": "PRIVILEGE_ESCALATION",
  "prohibited by policy": "POLICY_VIOLATION",
  "prohibited_content": "PLATFORM_PROHIBITED",
  "prompt injection attempt": "CONTEXT_INJECTION",
  "prompt injection blocked": "CONTEXT_INJECTION",
  "prompt injection detected": "CONTEXT_INJECTION",
  "prompt injection found": "CONTEXT_INJECTION",
  "push cannot contain secrets": "SECRET_LEAK",
  "quota exceeded for metric": "RATE_LIMIT",
  "quota exceeded for quota metric": "RATE_LIMIT",
  "rate limit exceeded": "RATE_LIMIT",
  "rate limit hit": "RATE_LIMIT",
  "rate limit reached": "RATE_LIMIT",
  "rate limit reached for": "RATE_LIMIT",
  "rate limited": "RATE_LIMIT",
  "rate-limited": "RATE_LIMIT",
  "rate_limit_error": "RATE_LIMIT",
  "ratelimitreached": "RATE_LIMIT",
  "reached without hitting a stop condition": "BUDGET_EXCEEDED",
  "refund amount over escalation threshold": "REFUND_OVER_ESCALATION_LIMIT",
  "refusing to remove '.' or '..' directory": "DESTRUCTIVE_ACTION",
  "rego_compile_error": "POLICY_INVALID",
  "rego_parse_error": "POLICY_INVALID",
  "rejected as a result of our safety system": "CONTENT_OTHER",
  "rejected by policy": "POLICY_VIOLATION",
  "remote code execution attempt": "RCE_RISK",
  "remote code execution blocked": "RCE_RISK",
  "remote code execution detected": "RCE_RISK",
  "remote code execution risk": "RCE_RISK",
  "repeated tool call": "LOOP_DETECTED",
  "request is missing required authentication credential": "AUTHORIZATION_MISSING",
  "request to call tool denied": "APPROVAL_DENIED",
  "request was rejected by the content filter": "FILTERED_UNSPECIFIED",
  "request was throttled": "RATE_LIMIT",
  "requires approval": "APPROVAL_REQUIRED",
  "requires human approval": "APPROVAL_REQUIRED",
  "resource has been exhausted": "RATE_LIMIT",
  "resource not accessible by integration": "PERMISSION_DENIED",
  "responsibleaipolicyviolation": "FILTERED_UNSPECIFIED",
  "risk score exceeds threshold": "RISK_THRESHOLD_EXCEEDED",
  "risk threshold exceeded": "RISK_THRESHOLD_EXCEEDED",
  "risky import": "RISKY_IMPORT",
  "sandbox denied exec error": "PERMISSION_DENIED",
  "sandbox_egress_restricted": "EGRESS_DENIED",
  "sentences in your response were found to be toxic": "CONTENT_HARASSMENT",
  "skill injection detected": "SKILL_INJECTION",
  "spend amount over approval threshold": "SPEND_OVER_APPROVAL_LIMIT",
  "spending limit exceeded": "SPEND_OVER_APPROVAL_LIMIT",
  "stripe blocked this payment as too risky": "FRAUD_MODEL_HIGH_RISK",
  "stuck in a loop": "LOOP_DETECTED",
  "task_state_auth_required": "AUTHORIZATION_MISSING",
  "task_state_rejected": "TASK_REJECTED",
  "the \"no new privileges\" flag is set": "PRIVILEGE_ESCALATION",
  "the contents are not filtered": "GUARDRAIL_UNAVAILABLE",
  "the model was reciting from copyrighted material": "IP_RECITATION",
  "the response matched public code": "IP_RECITATION",
  "the response was using an unsupported language": "LANGUAGE_UNSUPPORTED",
  "the tool call was denied": "APPROVAL_DENIED",
  "the user doesn't want to proceed with this tool use": "APPROVAL_DENIED",
  "the user doesn't want to take this action right now": "APPROVAL_DENIED",
  "this command requires approval": "APPROVAL_REQUIRED",
  "this entity is not allowed to be used in this request": "PII_DETECTED",
  "throttlingexception": "RATE_LIMIT",
  "too many requests": "RATE_LIMIT",
  "tool call blocked": "TOOL_NOT_ALLOWED",
  "tool call denied": "TOOL_NOT_ALLOWED",
  "tool call refused": "TOOL_NOT_ALLOWED",
  "tool definition has changed": "UNVERIFIED_TOOL",
  "tool execution was not approved": "APPROVAL_DENIED",
  "tool is not allowed": "TOOL_NOT_ALLOWED",
  "tool is not permitted": "TOOL_NOT_ALLOWED",
  "tool is not pinned": "UNVERIFIED_TOOL",
  "tool is not verified": "UNVERIFIED_TOOL",
  "tool not allowed": "TOOL_NOT_ALLOWED",
  "tool not permitted": "TOOL_NOT_ALLOWED",
  "tool not verified": "UNVERIFIED_TOOL",
  "tool signature mismatch": "UNVERIFIED_TOOL",
  "unable to generate a response due to": "MODEL_DECLINED",
  "unsafe code execution": "RCE_RISK",
  "unsafe import": "RISKY_IMPORT",
  "unsupported_country_region_territory": "PROVIDER_TERMS",
  "untrusted tool": "UNVERIFIED_TOOL",
  "unverified tool": "UNVERIFIED_TOOL",
  "usagelimitexceeded": "BUDGET_EXCEEDED",
  "user denied execution": "APPROVAL_DENIED",
  "user location is not supported for the api use": "PROVIDER_TERMS",
  "user rejected the tool call": "APPROVAL_DENIED",
  "validation failed for field with errors": "POLICY_VIOLATION",
  "violate google's responsible ai practices": "CONTENT_OTHER",
  "violated guardrail policy": "POLICY_VIOLATION",
  "violates policy": "POLICY_VIOLATION",
  "violating our usage policy": "CONTENT_OTHER",
  "weights only load failed": "RCE_RISK",
  "within my programming or ethical guidelines": "MODEL_DECLINED",
  "workspace_policy_violation": "PERMISSION_DENIED",
  "would exceed your organization's rate limit": "RATE_LIMIT",
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
