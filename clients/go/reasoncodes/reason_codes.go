// Code generated from the registry of reason codes; DO NOT EDIT.

// Package reasoncodes holds the reason codes of refusals and what is known about each.
package reasoncodes

// Registry is the registry this was generated from.
const Registry = "reason_codes.v1@1.2.0"

// Code is a reason code: why something was refused.
type Code string

// Class says whether a refusal may be lifted.
type Class string

// Advice is the next step a caller can take.
type Advice string

// Scope says how far a refusal reaches.
type Scope string

// Severity says how much attention a code deserves.
type Severity string

// Verdict is the judgement of an action.
type Verdict string

// Output says what the caller must do now.
type Output string

// Info is what the registry says about one code.
type Info struct {
	Code  Code
	Title string
	// Class, Advice and RetryScope are empty for a code that allows.
	Class      Class
	Advice     Advice
	RetryScope Scope
	Severity   Severity
	// Decided is false if nothing was judged: a check failed, and the action must not run.
	Decided    bool
	Deprecated bool
	// Parent and Replacement are empty where there is none.
	Parent      Code
	Replacement Code
}

const (
	// Nothing lifts it: no approval, no context, no limit.
	ClassHardBlock Class = "HARD_BLOCK"

	// Supplying what is missing lifts it.
	ClassWorkflowBlock Class = "WORKFLOW_BLOCK"

	// Accepting limits on the action lifts it.
	ClassSoftBlock Class = "SOFT_BLOCK"
)

const (
	// Stop here, and do not send it again in these or other words.
	AdviceDoNotRetry Advice = "do_not_retry"

	// Change what is asked for, not only how it is worded, and ask again.
	AdviceChangeRequest Advice = "change_request"

	// Supply what is missing, then send the request again.
	AdviceProvideContext Advice = "provide_context"

	// Accept the limits that are offered, and the action runs in them.
	AdviceAcceptConstraints Advice = "accept_constraints"

	// Ask someone who may approve it, and go on once they have.
	AdviceRequestApproval Advice = "request_approval"

	// Wait, then send the same request again.
	AdviceRetryLater Advice = "retry_later"

	// Drop the context that carries the problem and start from a clean one.
	AdviceResetContext Advice = "reset_context"

	// Send the request to another model; this one will not serve it.
	AdviceUseOtherModel Advice = "use_other_model"

	// Hand it to whoever runs the system; neither the agent nor its user can settle it.
	AdviceEscalateOperator Advice = "escalate_operator"
)

const (
	// The refusal covers this call only; another one may pass.
	ScopeCall Scope = "call"

	// The refusal covers every variant of the call under the same rule.
	ScopeRule Scope = "rule"

	// The refusal covers the whole session until the cause is gone.
	ScopeSession Scope = "session"
)

const (
	// Worth recording; there is nothing to act on.
	SeverityInfo Severity = "info"

	// Routine; only a change in numbers is news.
	SeverityLow Severity = "low"

	// Worth a look when it becomes frequent.
	SeverityMedium Severity = "medium"

	// Someone should look at it the same day.
	SeverityHigh Severity = "high"

	// Someone should look at it now.
	SeverityCritical Severity = "critical"
)

const (
	// Nothing speaks against the action, or limits take care of what does.
	VerdictAllow Verdict = "ALLOW"

	// The action waits for something that is missing.
	VerdictEscalate Verdict = "ESCALATE"

	// The action could not be judged, so it does not run.
	VerdictAbstain Verdict = "ABSTAIN"

	// The action must not run.
	VerdictDeny Verdict = "DENY"
)

const (
	// Run the action as asked.
	OutputAllowExecute Output = "ALLOW_EXECUTE"

	// Run the action within the limits that come with the answer.
	OutputAllowConstrained Output = "ALLOW_CONSTRAINED"

	// Supply what the answer names as missing, then ask again.
	OutputNeedContext Output = "NEED_CONTEXT"

	// Do not run it; the answer says what can be done instead.
	OutputRefuseWithPath Output = "REFUSE_WITH_PATH"
)

// The reason codes.
const (
	// A rule of the deployment forbids this and no narrower code names the rule. Use it only when none of its children fits.
	PolicyViolation Code = "POLICY_VIOLATION"

	// Too many requests, calls or tokens arrived in one time window. Waiting is enough; when a total allowance is spent, use BUDGET_EXCEEDED.
	RateLimit Code = "RATE_LIMIT"

	// The tool's definition or origin does not match what was pinned, or was never pinned at all. A known tool that is merely not permitted is TOOL_NOT_ALLOWED.
	UnverifiedTool Code = "UNVERIFIED_TOOL"

	// The tool is known, but the allow-list for this agent or user does not include it or these arguments. If the tool itself cannot be trusted, use UNVERIFIED_TOOL.
	ToolNotAllowed Code = "TOOL_NOT_ALLOWED"

	// Code or data from outside would be run without anyone having read it, such as a download piped to a shell or an untrusted object unpickled.
	RceRisk Code = "RCE_RISK"

	// If this ran, data would be lost for good: erased, wiped or overwritten without a copy. Reading or listing the same data is not covered.
	DestructiveAction Code = "DESTRUCTIVE_ACTION"

	// If this ran, a whole machine or everything that a person owns on it would be gone: the root of the file system, a whole home folder or a block device. Other losses are UNAPPROVED_DESTRUCTION.
	IrrecoverableDestruction Code = "IRRECOVERABLE_DESTRUCTION"

	// If this ran, some data would be lost for good, and nobody who may decide that has approved it. The loss of a whole machine or home is IRRECOVERABLE_DESTRUCTION.
	UnapprovedDestruction Code = "UNAPPROVED_DESTRUCTION"

	// The action would gain rights that the agent does not hold now, such as becoming root or widening a role. A call that merely lacks a right is PERMISSION_DENIED.
	PrivilegeEscalation Code = "PRIVILEGE_ESCALATION"

	// Private data would leave for a place outside the trust boundary. A secret printed in an answer is SECRET_LEAK; a host the network rules forbid is EGRESS_DENIED.
	ExfiltrationRisk Code = "EXFILTRATION_RISK"

	// The agent repeats the same calls, or a cycle of calls, without progress. Many different calls that use up an allowance are BUDGET_EXCEEDED.
	LoopDetected Code = "LOOP_DETECTED"

	// A total allowance of money, tokens, steps or time for this task or account is used up. Waiting does not bring it back, unlike RATE_LIMIT.
	BudgetExceeded Code = "BUDGET_EXCEEDED"

	// Pinned rules or stored context are not what was sealed earlier: a seal does not verify or a pinned part is gone. New instructions in the text are CONTEXT_INJECTION.
	IntegrityFailure Code = "INTEGRITY_FAILURE"

	// Text that should be data gives the model orders, or tries to replace its instructions, whether a user typed it or it came from a page, tool or document. Hidden in a skill it is SKILL_INJECTION.
	ContextInjection Code = "CONTEXT_INJECTION"

	// A persona, game, fiction or encoding is wrapped around the request to loosen the model's rules. It names the form only; a stated aim to defeat safeguards is SAFETY_EVASION.
	JailbreakWrapper Code = "JAILBREAK_WRAPPER"

	// Code brings in a module that can start processes, open sockets or reach native memory, and nothing declares the need. Code that already runs foreign input is RCE_RISK.
	RiskyImport Code = "RISKY_IMPORT"

	// Code hides what it does: a decoded, decompressed or assembled string is executed. Decoding data without executing it is not covered.
	ObfuscatedCode Code = "OBFUSCATED_CODE"

	// A skill, plugin or tool description carries hidden orders for the model that its user does not see. Orders in ordinary content are CONTEXT_INJECTION.
	SkillInjection Code = "SKILL_INJECTION"

	// A key, password, token or other credential stands in text that is about to be shown, sent or stored. Data about a person is PII_DETECTED.
	SecretLeak Code = "SECRET_LEAK"

	// The text contains data that identifies a person, such as a card, account or identity number. A wish to spy on or expose someone is CONTENT_PRIVACY.
	PiiDetected Code = "PII_DETECTED"

	// The model's answer matches a pattern that must never leave, whatever was asked. A credential in an answer is SECRET_LEAK.
	OutputForbidden Code = "OUTPUT_FORBIDDEN"

	// Someone seems to be in immediate danger of harming themselves or another, so a human and help lines are brought in. A request for methods alone is CONTENT_SELF_HARM.
	CrisisEscalation Code = "CRISIS_ESCALATION"

	// The stated aim is to harm or rob someone, or to act without their authority, whatever the topic. When only the kind of content is known, use a CONTENT code.
	ObjectiveMalicious Code = "OBJECTIVE_MALICIOUS"

	// The stated aim is to switch off, get around or hide from a safeguard. It names an intent; an odd form without that intent is JAILBREAK_WRAPPER.
	SafetyEvasion Code = "SAFETY_EVASION"

	// The platform forbids this content for everybody and no setting or contract lifts it. A limit in a customer's agreement is PROVIDER_TERMS.
	PlatformProhibited Code = "PLATFORM_PROHIBITED"

	// Content was judged harmful, but its kind is not given or has no code of its own. Prefer a child; if not even harm is stated, use FILTERED_UNSPECIFIED.
	ContentOther Code = "CONTENT_OTHER"

	// The request or answer would spy on, locate, expose or profile a person without consent. Personal data merely present in text is PII_DETECTED.
	ContentPrivacy Code = "CONTENT_PRIVACY"

	// Content bullies, threatens, insults or intimidates a particular person. Attacks on a group for what its members are count as CONTENT_HATE.
	ContentHarassment Code = "CONTENT_HARASSMENT"

	// Content would help someone make, alter or obtain weapons or explosives. Weapons of mass harm have the narrower CONTENT_CBRN.
	ContentWeapons Code = "CONTENT_WEAPONS"

	// Content would help attack computers, networks or accounts, for example with malware or by breaking in. Teaching defence is not covered.
	ContentCyber Code = "CONTENT_CYBER"

	// Content would help make or use chemical, biological, radiological or nuclear weapons. Conventional arms and explosives are CONTENT_WEAPONS.
	ContentCbrn Code = "CONTENT_CBRN"

	// Content describes, praises or asks for ways to hurt or kill oneself. When a person seems to be in danger now, use CRISIS_ESCALATION.
	ContentSelfHarm Code = "CONTENT_SELF_HARM"

	// Content is sexually explicit, or sexualises an adult who has not consented. Anything that involves a minor is CONTENT_CSAE.
	ContentSexual Code = "CONTENT_SEXUAL"

	// Content sexualises a minor, or would help abuse or exploit one. No constraint makes it acceptable.
	ContentCsae Code = "CONTENT_CSAE"

	// Content demeans or attacks people for what they are, such as their origin, faith, sex or disability. Attacks on one person for other reasons are CONTENT_HARASSMENT.
	ContentHate Code = "CONTENT_HATE"

	// Content calls for, plans or graphically celebrates physical violence against people or animals. The means of violence are CONTENT_WEAPONS.
	ContentViolence Code = "CONTENT_VIOLENCE"

	// Content would help commit a crime without violence, such as theft, smuggling or dealing. Deceit for money is the narrower CONTENT_FRAUD.
	ContentCrime Code = "CONTENT_CRIME"

	// Content would help gain money or goods by deceit, such as forged papers or false claims. Talking a person out of secrets or access is CONTENT_SOCIAL_ENGINEERING.
	ContentFraud Code = "CONTENT_FRAUD"

	// Content would manipulate or impersonate someone to win secrets, access or a harmful act, as in phishing. Deceit that only takes money is CONTENT_FRAUD.
	ContentSocialEngineering Code = "CONTENT_SOCIAL_ENGINEERING"

	// Content encourages acts likely to injure people by accident or recklessness, such as dares or unsafe experiments. Intended harm has its own CONTENT codes.
	ContentDangerous Code = "CONTENT_DANGEROUS"

	// The answer would give personal medical, legal or financial advice that calls for a qualified person. General information on the subject is not covered.
	ContentAdvice Code = "CONTENT_ADVICE"

	// Content would mislead voters or disturb a vote, or a provider declines election topics as a whole. Other false claims are CONTENT_MISINFORMATION.
	ContentElection Code = "CONTENT_ELECTION"

	// Content states falsehoods that would damage the name of a real, identifiable person or body. Insults without a factual claim are CONTENT_HARASSMENT.
	ContentDefamation Code = "CONTENT_DEFAMATION"

	// Content presents false claims as fact in a way that could harm the public. An answer that lacks support in its own sources is UNGROUNDED.
	ContentMisinformation Code = "CONTENT_MISINFORMATION"

	// The text uses swear words or crude language that the deployment does not want. A word on a custom list is TERM_BLOCKLISTED.
	ContentProfanity Code = "CONTENT_PROFANITY"

	// The action needs proof of authority and none was given. Proof that was given but does not reach this far is PERMISSION_DENIED.
	AuthorizationMissing Code = "AUTHORIZATION_MISSING"

	// The caller is known, but the rights shown do not cover this action or resource. If no proof was shown at all, use AUTHORIZATION_MISSING.
	PermissionDenied Code = "PERMISSION_DENIED"

	// The request does not say which targets, limits or boundaries it applies to. Scopes of an access token are a matter of PERMISSION_DENIED.
	ScopeMissing Code = "SCOPE_MISSING"

	// A fact needed to decide or to carry on was not supplied. A missing target or boundary is SCOPE_MISSING.
	ContextMissing Code = "CONTEXT_MISSING"

	// A person must agree before this action runs, and nobody has answered yet. Once someone has said no, use APPROVAL_DENIED.
	ApprovalRequired Code = "APPROVAL_REQUIRED"

	// A person was asked to agree to this action and said no. If nobody has answered yet, use APPROVAL_REQUIRED.
	ApprovalDenied Code = "APPROVAL_DENIED"

	// The amount or extent goes beyond what the caller may decide alone. Refunds and spending have narrower codes.
	ApprovalLimitExceeded Code = "APPROVAL_LIMIT_EXCEEDED"

	// The aim is legitimate, but the detail asked for goes further than the aim needs. A shorter or more general answer can be given.
	DetailExceedsNeed Code = "DETAIL_EXCEEDS_NEED"

	// The action is acceptable in principle, but in this form it is too risky. Named limits, such as a smaller range or a dry run, would bring the risk down.
	RiskReducible Code = "RISK_REDUCIBLE"

	// What the caller wants to achieve cannot be told from the request, so it can be judged neither safe nor harmful. A single absent fact is CONTEXT_MISSING.
	ObjectiveUnclear Code = "OBJECTIVE_UNCLEAR"

	// A tool asked the user for information and the user declined or closed the question. A no to running the action is APPROVAL_DENIED.
	ElicitationDeclined Code = "ELICITATION_DECLINED"

	// Another agent or service refused to take on the task that was handed to it, and gave no reason with a code of its own.
	TaskRejected Code = "TASK_REJECTED"

	// No rule of the policy covered the request, so its default applied and a person must decide.
	NoMatchDefaultEscalate Code = "NO_MATCH_DEFAULT_ESCALATE"

	// The refund is larger than the agent may pay out without a person.
	RefundOverEscalationLimit Code = "REFUND_OVER_ESCALATION_LIMIT"

	// The purchase or payment is larger than may be made without approval.
	SpendOverApprovalLimit Code = "SPEND_OVER_APPROVAL_LIMIT"

	// A risk score rose above the threshold that the policy sets. Use a child when the kind of risk is known.
	RiskThresholdExceeded Code = "RISK_THRESHOLD_EXCEEDED"

	// The payment is too likely to be disputed and reversed, so the action is refused.
	ChargebackRiskBlock Code = "CHARGEBACK_RISK_BLOCK"

	// Signs show that someone other than the owner controls the account, so nothing more is done in this session.
	AccountTakeoverRiskBlock Code = "ACCOUNT_TAKEOVER_RISK_BLOCK"

	// The card, account or wallet to be used is itself rated as risky, for example reported stolen. A risky transaction is FRAUD_MODEL_HIGH_RISK.
	PaymentInstrumentHighRisk Code = "PAYMENT_INSTRUMENT_HIGH_RISK"

	// A fraud model rated the transaction as risky and gave no narrower cause. If likely dispute is the cause, use CHARGEBACK_RISK_BLOCK.
	FraudModelHighRisk Code = "FRAUD_MODEL_HIGH_RISK"

	// Recent behaviour differs from what is usual for this user or agent, without proof of anything wrong.
	PatternAnomalyDetected Code = "PATTERN_ANOMALY_DETECTED"

	// The number, timing or size of refunds differs from what is usual for this customer. One refund that is too large is REFUND_OVER_ESCALATION_LIMIT.
	RefundPatternAnomaly Code = "REFUND_PATTERN_ANOMALY"

	// The refund needs proof, such as an order or a ticket, that was not supplied. Proof that cannot be read is EVIDENCE_INVALID.
	MissingEvidenceRefund Code = "MISSING_EVIDENCE_REFUND"

	// A field that a rule compares is there but cannot be used: wrong type, not a number, or unreadable. A field that is absent is CONTEXT_MISSING.
	EvidenceInvalid Code = "EVIDENCE_INVALID"

	// The request closely resembles one that was labelled a failure, near enough to be refused outright. A weaker likeness is FAILURE_MEMORY_SIMILAR_ESCALATE.
	FailureMemorySimilarBlock Code = "FAILURE_MEMORY_SIMILAR_BLOCK"

	// The request resembles one that was labelled a failure, enough for a person to look at it. A closer likeness is FAILURE_MEMORY_SIMILAR_BLOCK.
	FailureMemorySimilarEscalate Code = "FAILURE_MEMORY_SIMILAR_ESCALATE"

	// The request closely resembles one that was labelled a success, so an escalation was lifted. It never lifts a denial.
	SuccessMemorySimilarAllow Code = "SUCCESS_MEMORY_SIMILAR_ALLOW"

	// A request id that was already decided came back with a different body. Repeating a request unchanged is no conflict.
	IdempotencyConflict Code = "IDEMPOTENCY_CONFLICT"

	// Older general code for payments refused as fraud. New decisions use CHARGEBACK_RISK_BLOCK; records that carry this one keep their meaning.
	//
	// Deprecated: Use CHARGEBACK_RISK_BLOCK instead.
	OldFraudBlock Code = "OLD_FRAUD_BLOCK"

	// The model itself chose not to answer and gave no category. A filter around the model is FILTERED_UNSPECIFIED.
	ModelDeclined Code = "MODEL_DECLINED"

	// A provider's filter stopped the request or answer and did not say why. A model that declines in its own words is MODEL_DECLINED.
	FilteredUnspecified Code = "FILTERED_UNSPECIFIED"

	// The request or answer would misuse a work, mark or likeness that others hold rights in. Word-for-word copies are IP_RECITATION.
	IpProtected Code = "IP_PROTECTED"

	// The answer would repeat a published text or piece of code almost word for word. Other uses of protected work are IP_PROTECTED.
	IpRecitation Code = "IP_RECITATION"

	// The provider's contract forbids this use to this customer or in this place, harmful or not, such as training a rival model. Rules for everybody are PLATFORM_PROHIBITED.
	ProviderTerms Code = "PROVIDER_TERMS"

	// The provider has closed or paused the account, so every request fails until someone settles it with the provider.
	AccountSuspended Code = "ACCOUNT_SUSPENDED"

	// The request asks for, or the answer shows, the hidden instructions of the system. The model's private working is REASONING_EXTRACTION.
	PromptLeak Code = "PROMPT_LEAK"

	// The request tries to get the model's private working rather than an explanation. The system's instructions are PROMPT_LEAK.
	ReasoningExtraction Code = "REASONING_EXTRACTION"

	// The conversation touches a subject that this deployment has chosen not to discuss, harmful or not. A single listed word is TERM_BLOCKLISTED.
	TopicDenied Code = "TOPIC_DENIED"

	// The text contains a word or phrase on a list kept by the deployment or provider. General swearing is CONTENT_PROFANITY; a whole subject is TOPIC_DENIED.
	TermBlocklisted Code = "TERM_BLOCKLISTED"

	// The request or answer is in a human language that the model or guard cannot handle safely.
	LanguageUnsupported Code = "LANGUAGE_UNSUPPORTED"

	// The answer says things that the given sources do not support, or does not address the question. Harmful falsehood is CONTENT_MISINFORMATION.
	Ungrounded Code = "UNGROUNDED"

	// A formal check found that the answer contradicts the rules of a policy. When the policy itself cannot be loaded, use POLICY_INVALID.
	PolicyLogicInvalid Code = "POLICY_LOGIC_INVALID"

	// A provider stopped an action because the user may not have meant it, without saying what kind. Prefer a child where the kind is given.
	ActionOther Code = "ACTION_OTHER"

	// A provider refused an action outright as too risky to run on anyone's word. An action that was only held for review is ACTION_OTHER.
	ActionHighRisk Code = "ACTION_HIGH_RISK"

	// A provider stopped an action that would read data the user may not have meant to open. Data about to be sent out is EXFILTRATION_RISK.
	DataAccessUnintended Code = "DATA_ACCESS_UNINTENDED"

	// The network rules of a sandbox or host do not let this connection out, whatever it carries. Suspicion about the data is EXFILTRATION_RISK.
	EgressDenied Code = "EGRESS_DENIED"

	// A required guardrail gave no verdict at all: it failed, timed out or could not be reached. One that ran only some of its checks is GUARDRAIL_PARTIAL.
	GuardrailUnavailable Code = "GUARDRAIL_UNAVAILABLE"

	// A guardrail ran some of its checks and not others, or covered only part of the text. If it gave no verdict at all, use GUARDRAIL_UNAVAILABLE.
	GuardrailPartial Code = "GUARDRAIL_PARTIAL"

	// The decision could not be stored before the answer was due, so nothing may run on it.
	StorageUnavailable Code = "STORAGE_UNAVAILABLE"

	// The policy is missing or cannot be loaded, so nothing can be judged by it. An answer that breaks a sound policy's logic is POLICY_LOGIC_INVALID.
	PolicyInvalid Code = "POLICY_INVALID"

	// A call to a service could not be read, or asked for something that is not there, so nothing was judged. A field that a rule compares and cannot use is EVIDENCE_INVALID.
	RequestInvalid Code = "REQUEST_INVALID"

	// Deciding failed in a way that no other runtime code names, so no verdict was reached.
	InternalError Code = "INTERNAL_ERROR"
)

var all = []Info{
	{Code: PolicyViolation, Title: "Policy violation", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true},
	{Code: RateLimit, Title: "Rate limit", Class: ClassWorkflowBlock, Advice: AdviceRetryLater, RetryScope: ScopeSession, Severity: SeverityLow, Decided: true},
	{Code: UnverifiedTool, Title: "Unverified tool", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: ToolNotAllowed, Title: "Disallowed tool", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true, Parent: PolicyViolation},
	{Code: RceRisk, Title: "Remote code execution", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityCritical, Decided: true, Parent: PolicyViolation},
	{Code: DestructiveAction, Title: "Destructive action", Class: ClassSoftBlock, Advice: AdviceAcceptConstraints, RetryScope: ScopeCall, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: IrrecoverableDestruction, Title: "Irrecoverable destruction", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityCritical, Decided: true, Parent: DestructiveAction},
	{Code: UnapprovedDestruction, Title: "Destruction without approval", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityHigh, Decided: true, Parent: DestructiveAction},
	{Code: PrivilegeEscalation, Title: "Privilege escalation", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: ExfiltrationRisk, Title: "Exfiltration risk", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: LoopDetected, Title: "Tool loop", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeSession, Severity: SeverityMedium, Decided: true, Parent: PolicyViolation},
	{Code: BudgetExceeded, Title: "Budget used up", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeSession, Severity: SeverityMedium, Decided: true},
	{Code: IntegrityFailure, Title: "Context integrity failure", Class: ClassHardBlock, Advice: AdviceResetContext, RetryScope: ScopeSession, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: ContextInjection, Title: "Context injection", Class: ClassSoftBlock, Advice: AdviceResetContext, RetryScope: ScopeSession, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: JailbreakWrapper, Title: "Jailbreak wrapper", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true, Parent: PolicyViolation},
	{Code: RiskyImport, Title: "Risky import", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: ObfuscatedCode, Title: "Obfuscated code", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: SkillInjection, Title: "Skill injection", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContextInjection},
	{Code: SecretLeak, Title: "Secret leak", Class: ClassSoftBlock, Advice: AdviceAcceptConstraints, RetryScope: ScopeCall, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: PiiDetected, Title: "Personal data", Class: ClassSoftBlock, Advice: AdviceAcceptConstraints, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true, Parent: PolicyViolation},
	{Code: OutputForbidden, Title: "Forbidden output", Class: ClassHardBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: PolicyViolation},
	{Code: CrisisEscalation, Title: "Person in crisis", Class: ClassWorkflowBlock, Advice: AdviceEscalateOperator, RetryScope: ScopeSession, Severity: SeverityCritical, Decided: true},
	{Code: ObjectiveMalicious, Title: "Malicious objective", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityCritical, Decided: true},
	{Code: SafetyEvasion, Title: "Safety evasion", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeSession, Severity: SeverityCritical, Decided: true},
	{Code: PlatformProhibited, Title: "Platform prohibition", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityCritical, Decided: true},
	{Code: ContentOther, Title: "Harmful content", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: ContentPrivacy, Title: "Privacy intrusion", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContentOther},
	{Code: ContentHarassment, Title: "Harassing content", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContentOther},
	{Code: ContentWeapons, Title: "Weapons content", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityCritical, Decided: true, Parent: ContentOther},
	{Code: ContentCyber, Title: "Cyber attack", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContentOther},
	{Code: ContentCbrn, Title: "Weapons of mass harm", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityCritical, Decided: true, Parent: ContentWeapons},
	{Code: ContentSelfHarm, Title: "Self-harm content", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityCritical, Decided: true, Parent: ContentOther},
	{Code: ContentSexual, Title: "Sexual content", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true, Parent: ContentOther},
	{Code: ContentCsae, Title: "Child sexual exploitation", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityCritical, Decided: true, Parent: ContentSexual},
	{Code: ContentHate, Title: "Hateful content", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContentOther},
	{Code: ContentViolence, Title: "Violent content", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContentOther},
	{Code: ContentCrime, Title: "Criminal activity", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContentOther},
	{Code: ContentFraud, Title: "Fraudulent scheme", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContentCrime},
	{Code: ContentSocialEngineering, Title: "Social engineering", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContentOther},
	{Code: ContentDangerous, Title: "Dangerous activity", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ContentOther},
	{Code: ContentAdvice, Title: "Professional advice", Class: ClassSoftBlock, Advice: AdviceAcceptConstraints, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true, Parent: ContentOther},
	{Code: ContentElection, Title: "Election interference", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true, Parent: ContentOther},
	{Code: ContentDefamation, Title: "Defamatory claim", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true, Parent: ContentOther},
	{Code: ContentMisinformation, Title: "False information", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true, Parent: ContentOther},
	{Code: ContentProfanity, Title: "Profane language", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true, Parent: ContentOther},
	{Code: AuthorizationMissing, Title: "Missing authorisation", Class: ClassWorkflowBlock, Advice: AdviceProvideContext, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: PermissionDenied, Title: "Permission denied", Class: ClassWorkflowBlock, Advice: AdviceEscalateOperator, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true},
	{Code: ScopeMissing, Title: "Missing scope", Class: ClassWorkflowBlock, Advice: AdviceProvideContext, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true},
	{Code: ContextMissing, Title: "Missing context", Class: ClassWorkflowBlock, Advice: AdviceProvideContext, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true},
	{Code: ApprovalRequired, Title: "Approval required", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: ApprovalDenied, Title: "Approval denied", Class: ClassWorkflowBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true},
	{Code: ApprovalLimitExceeded, Title: "Approval limit exceeded", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true, Parent: ApprovalRequired},
	{Code: DetailExceedsNeed, Title: "Excessive detail", Class: ClassSoftBlock, Advice: AdviceAcceptConstraints, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true},
	{Code: RiskReducible, Title: "Reducible risk", Class: ClassSoftBlock, Advice: AdviceAcceptConstraints, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: ObjectiveUnclear, Title: "Unclear objective", Class: ClassWorkflowBlock, Advice: AdviceProvideContext, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true, Parent: ContextMissing},
	{Code: ElicitationDeclined, Title: "Declined question", Class: ClassWorkflowBlock, Advice: AdviceProvideContext, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true, Parent: ContextMissing},
	{Code: TaskRejected, Title: "Rejected task", Class: ClassWorkflowBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: NoMatchDefaultEscalate, Title: "No matching rule", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true},
	{Code: RefundOverEscalationLimit, Title: "Refund over limit", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true, Parent: ApprovalLimitExceeded},
	{Code: SpendOverApprovalLimit, Title: "Spend over limit", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true, Parent: ApprovalLimitExceeded},
	{Code: RiskThresholdExceeded, Title: "Risk threshold exceeded", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityHigh, Decided: true},
	{Code: ChargebackRiskBlock, Title: "Chargeback risk", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: RiskThresholdExceeded},
	{Code: AccountTakeoverRiskBlock, Title: "Account takeover risk", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeSession, Severity: SeverityCritical, Decided: true, Parent: RiskThresholdExceeded},
	{Code: PaymentInstrumentHighRisk, Title: "Risky payment instrument", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: RiskThresholdExceeded},
	{Code: FraudModelHighRisk, Title: "High fraud score", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityHigh, Decided: true, Parent: RiskThresholdExceeded},
	{Code: PatternAnomalyDetected, Title: "Unusual pattern", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: RefundPatternAnomaly, Title: "Unusual refund pattern", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true, Parent: PatternAnomalyDetected},
	{Code: MissingEvidenceRefund, Title: "Missing refund evidence", Class: ClassWorkflowBlock, Advice: AdviceProvideContext, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true, Parent: ContextMissing},
	{Code: EvidenceInvalid, Title: "Invalid evidence", Class: ClassWorkflowBlock, Advice: AdviceProvideContext, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true},
	{Code: FailureMemorySimilarBlock, Title: "Close failure match", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true},
	{Code: FailureMemorySimilarEscalate, Title: "Similar past failure", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: SuccessMemorySimilarAllow, Title: "Similar past success", Severity: SeverityInfo, Decided: true},
	{Code: IdempotencyConflict, Title: "Reused request id", Class: ClassWorkflowBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true},
	{Code: OldFraudBlock, Title: "Old fraud block", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Deprecated: true, Parent: RiskThresholdExceeded, Replacement: ChargebackRiskBlock},
	{Code: ModelDeclined, Title: "Model declined", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: FilteredUnspecified, Title: "Unexplained filter", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: IpProtected, Title: "Protected work", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true},
	{Code: IpRecitation, Title: "Recited source", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true, Parent: IpProtected},
	{Code: ProviderTerms, Title: "Provider terms", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true},
	{Code: AccountSuspended, Title: "Suspended account", Class: ClassHardBlock, Advice: AdviceEscalateOperator, RetryScope: ScopeSession, Severity: SeverityCritical, Decided: true},
	{Code: PromptLeak, Title: "System prompt leak", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true},
	{Code: ReasoningExtraction, Title: "Reasoning extraction", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityLow, Decided: true},
	{Code: TopicDenied, Title: "Denied topic", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeRule, Severity: SeverityLow, Decided: true, Parent: PolicyViolation},
	{Code: TermBlocklisted, Title: "Blocklisted term", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true, Parent: PolicyViolation},
	{Code: LanguageUnsupported, Title: "Unsupported language", Class: ClassSoftBlock, Advice: AdviceUseOtherModel, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true},
	{Code: Ungrounded, Title: "Ungrounded answer", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityLow, Decided: true},
	{Code: PolicyLogicInvalid, Title: "Policy contradiction", Class: ClassSoftBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: ActionOther, Title: "Unintended action", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeCall, Severity: SeverityMedium, Decided: true},
	{Code: ActionHighRisk, Title: "High-risk action", Class: ClassHardBlock, Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ActionOther},
	{Code: DataAccessUnintended, Title: "Unintended data access", Class: ClassWorkflowBlock, Advice: AdviceRequestApproval, RetryScope: ScopeRule, Severity: SeverityHigh, Decided: true, Parent: ActionOther},
	{Code: EgressDenied, Title: "Denied network access", Class: ClassWorkflowBlock, Advice: AdviceEscalateOperator, RetryScope: ScopeRule, Severity: SeverityMedium, Decided: true, Parent: PolicyViolation},
	{Code: GuardrailUnavailable, Title: "Guardrail unavailable", Class: ClassWorkflowBlock, Advice: AdviceRetryLater, RetryScope: ScopeCall, Severity: SeverityHigh},
	{Code: GuardrailPartial, Title: "Partial guardrail result", Class: ClassWorkflowBlock, Advice: AdviceRetryLater, RetryScope: ScopeCall, Severity: SeverityMedium, Parent: GuardrailUnavailable},
	{Code: StorageUnavailable, Title: "Storage unavailable", Class: ClassWorkflowBlock, Advice: AdviceRetryLater, RetryScope: ScopeSession, Severity: SeverityCritical},
	{Code: PolicyInvalid, Title: "Invalid policy", Class: ClassWorkflowBlock, Advice: AdviceEscalateOperator, RetryScope: ScopeSession, Severity: SeverityCritical},
	{Code: RequestInvalid, Title: "Unusable request", Class: ClassWorkflowBlock, Advice: AdviceChangeRequest, RetryScope: ScopeCall, Severity: SeverityInfo},
	{Code: InternalError, Title: "Internal error", Class: ClassWorkflowBlock, Advice: AdviceEscalateOperator, RetryScope: ScopeCall, Severity: SeverityCritical},
}

var infos = func() map[string]Info {
	byCode := make(map[string]Info, len(all))
	for _, info := range all {
		byCode[string(info.Code)] = info
	}
	return byCode
}()

type phrase struct {
	text string
	code Code
}

// Legacy phrases, folded; of several in one text, the first wins.
var phrases = []phrase{
	{"keys for idempotent requests can only be used with the same parameters", IdempotencyConflict},
	{"i can't help with responses on elections and political figures", ContentElection},
	{"i can’t help with responses on elections and political figures", ContentElection},
	{"contains custom code which must be executed to correctly load", RceRisk},
	{"request is missing required authentication credential", AuthorizationMissing},
	{"this entity is not allowed to be used in this request", PiiDetected},
	{"the user doesn't want to proceed with this tool use", ApprovalDenied},
	{"the user doesn't want to take this action right now", ApprovalDenied},
	{"sentences in your response were found to be toxic", ContentHarassment},
	{"the model was reciting from copyrighted material", IpRecitation},
	{"potential crisis - requires human intervention", CrisisEscalation},
	{"the response was using an unsupported language", LanguageUnsupported},
	{"user location is not supported for the api use", ProviderTerms},
	{"input_image_photo_realistic_child_prohibited", ContentCsae},
	{"potentially_unintended_destructive_activity", DestructiveAction},
	{"within my programming or ethical guidelines", ModelDeclined},
	{"country, region, or territory not supported", ProviderTerms},
	{"would exceed your organization's rate limit", RateLimit},
	{"request was rejected by the content filter", FilteredUnspecified},
	{"rejected as a result of our safety system", ContentOther},
	{"violate google's responsible ai practices", ContentOther},
	{"it is dangerous to operate recursively on", DestructiveAction},
	{"reached without hitting a stop condition", BudgetExceeded},
	{"refusing to remove '.' or '..' directory", DestructiveAction},
	{"stripe blocked this payment as too risky", FraudModelHighRisk},
	{"fraud detection model flagged high risk", FraudModelHighRisk},
	{"validation failed for field with errors", PolicyViolation},
	{"refund amount over escalation threshold", RefundOverEscalationLimit},
	{"potential secrets about to be committed", SecretLeak},
	{"resource not accessible by integration", PermissionDenied},
	{"is not allowed. authorized imports are", RiskyImport},
	{"permission to use bash has been denied", ToolNotAllowed},
	{"filtered due to the prompt triggering", FilteredUnspecified},
	{"blocked by your organization's policy", PolicyViolation},
	{"agent stopped due to iteration limit", BudgetExceeded},
	{"potentially_unintended_data_transfer", ExfiltrationRisk},
	{"missing required evidence for refund", MissingEvidenceRefund},
	{"unable to generate a response due to", ModelDeclined},
	{"unsupported_country_region_territory", ProviderTerms},
	{"spend amount over approval threshold", SpendOverApprovalLimit},
	{"agent stopped due to max iterations", BudgetExceeded},
	{"billing hard limit has been reached", BudgetExceeded},
	{"appears to violate our usage policy", ContentOther},
	{"blocked by content filtering policy", ContentOther},
	{"please return profanity-free output", ContentProfanity},
	{"potential nsfw content was detected", ContentSexual},
	{"the \"no new privileges\" flag is set", PrivilegeEscalation},
	{"potentially_unintended_data_access", DataAccessUnintended},
	{"i'm sorry, i can't respond to that", ModelDeclined},
	{"i’m sorry, i can’t respond to that", ModelDeclined},
	{"blocked due to suspicious activity", PatternAnomalyDetected},
	{"insufficient authentication scopes", PermissionDenied},
	{"i cannot provide financial advice", ContentAdvice},
	{"as an ai language model, i cannot", ModelDeclined},
	{"output contains forbidden content", OutputForbidden},
	{"importerror: __import__ not found", RiskyImport},
	{"i can't provide financial advice", ContentAdvice},
	{"i can’t provide financial advice", ContentAdvice},
	{"the response matched public code", IpRecitation},
	{"as an ai language model, i can't", ModelDeclined},
	{"as an ai language model, i can’t", ModelDeclined},
	{"payment instrument risk too high", PaymentInstrumentHighRisk},
	{"not in the list of allowed tools", ToolNotAllowed},
	{"tool execution was not approved", ApprovalDenied},
	{"i cannot provide medical advice", ContentAdvice},
	{"quota exceeded for quota metric", RateLimit},
	{"organization has been disabled", AccountSuspended},
	{"account takeover risk too high", AccountTakeoverRiskBlock},
	{"but you haven't granted it yet", ApprovalRequired},
	{"this command requires approval", ApprovalRequired},
	{"i can't provide medical advice", ContentAdvice},
	{"i can’t provide medical advice", ContentAdvice},
	{"contentfilterfinishreasonerror", FilteredUnspecified},
	{"i can't help with this request", ModelDeclined},
	{"i can’t help with this request", ModelDeclined},
	{"remote code execution detected", RceRisk},
	{"misalignment_policy_violation", ActionOther},
	{"exec command rejected by user", ApprovalDenied},
	{"i cannot provide legal advice", ContentAdvice},
	{"blocked by the safety filters", ContentOther},
	{"destructive operation blocked", DestructiveAction},
	{"the contents are not filtered", GuardrailUnavailable},
	{"integrity verification failed", IntegrityFailure},
	{"a potential loop was detected", LoopDetected},
	{"privilege escalation detected", PrivilegeEscalation},
	{"forbidden function evaluation", RceRisk},
	{"remote code execution attempt", RceRisk},
	{"remote code execution blocked", RceRisk},
	{"account has been deactivated", AccountSuspended},
	{"i can't provide legal advice", ContentAdvice},
	{"i can’t provide legal advice", ContentAdvice},
	{"crisis intervention required", CrisisEscalation},
	{"responsibleaipolicyviolation", FilteredUnspecified},
	{"is not authorized to perform", PermissionDenied},
	{"privilege escalation attempt", PrivilegeEscalation},
	{"privilege escalation blocked", PrivilegeEscalation},
	{"risk score exceeds threshold", RiskThresholdExceeded},
	{"not permitted for this agent", ToolNotAllowed},
	{"request to call tool denied", ApprovalDenied},
	{"user rejected the tool call", ApprovalDenied},
	{"exceeds your approval limit", ApprovalLimitExceeded},
	{"exceeded your current quota", BudgetExceeded},
	{"contentpolicyviolationerror", ContentOther},
	{"destructive command blocked", DestructiveAction},
	{"guardrail_failed_to_respond", GuardrailUnavailable},
	{"idempotentparametermismatch", IdempotencyConflict},
	{"i must respectfully decline", ModelDeclined},
	{"i'm not able to assist with", ModelDeclined},
	{"i’m not able to assist with", ModelDeclined},
	{"permission denied by policy", PermissionDenied},
	{"privilege escalation denied", PrivilegeEscalation},
	{"resource has been exhausted", RateLimit},
	{"push cannot contain secrets", SecretLeak},
	{"tool definition has changed", UnverifiedTool},
	{"account has been suspended", AccountSuspended},
	{"violating our usage policy", ContentOther},
	{"input_text_ncii_prohibited", ContentSexual},
	{"context injection detected", ContextInjection},
	{"destructive action blocked", DestructiveAction},
	{"i am not able to help with", ModelDeclined},
	{"workspace_policy_violation", PermissionDenied},
	{"guardrailtripwiretriggered", PolicyViolation},
	{"is not in the sudoers file", PrivilegeEscalation},
	{"remote code execution risk", RceRisk},
	{"forbidden access to module", RiskyImport},
	{"failed to persist decision", StorageUnavailable},
	{"not allowed for this agent", ToolNotAllowed},
	{"credit balance is too low", BudgetExceeded},
	{"finishreason.image_safety", ContentOther},
	{"blocked: prompt injection", ContextInjection},
	{"indirect prompt injection", ContextInjection},
	{"possible prompt injection", ContextInjection},
	{"prompt injection detected", ContextInjection},
	{"destructive action denied", DestructiveAction},
	{"sandbox_egress_restricted", EgressDenied},
	{"agent got stuck in a loop", LoopDetected},
	{"i'm not able to help with", ModelDeclined},
	{"i'm unable to assist with", ModelDeclined},
	{"i’m not able to help with", ModelDeclined},
	{"i’m unable to assist with", ModelDeclined},
	{"sandbox denied exec error", PermissionDenied},
	{"violated guardrail policy", PolicyViolation},
	{"quota exceeded for metric", RateLimit},
	{"the tool call was denied", ApprovalDenied},
	{"action requires approval", ApprovalRequired},
	{"task_state_auth_required", AuthorizationMissing},
	{"budget has been exceeded", BudgetExceeded},
	{"chargeback risk too high", ChargebackRiskBlock},
	{"content policy violation", ContentOther},
	{"content_policy_violation", ContentOther},
	{"prompt injection attempt", ContextInjection},
	{"prompt injection blocked", ContextInjection},
	{"i can't assist with that", ModelDeclined},
	{"i can’t assist with that", ModelDeclined},
	{"obfuscated code detected", ObfuscatedCode},
	{"blocked by the guardrail", PolicyViolation},
	{"weights only load failed", RceRisk},
	{"skill injection detected", SkillInjection},
	{"awaiting human approval", ApprovalRequired},
	{"requires human approval", ApprovalRequired},
	{"finishreason.recitation", IpRecitation},
	{"blockedreason.jailbreak", JailbreakWrapper},
	{"i cannot help with that", ModelDeclined},
	{"i'm unable to help with", ModelDeclined},
	{"i’m unable to help with", ModelDeclined},
	{"not permitted by policy", PolicyViolation},
	{"exceeded the rate limit", RateLimit},
	{"risk threshold exceeded", RiskThresholdExceeded},
	{"spending limit exceeded", SpendOverApprovalLimit},
	{"blockedreason.blocklist", TermBlocklisted},
	{"tool signature mismatch", UnverifiedTool},
	{"generated_image_minors", ContentCsae},
	{"prompt injection found", ContextInjection},
	{"blocked by model armor", FilteredUnspecified},
	{"integrity check failed", IntegrityFailure},
	{"i can't help with that", ModelDeclined},
	{"i can’t help with that", ModelDeclined},
	{"no policy rule matched", NoMatchDefaultEscalate},
	{"missing required scope", PermissionDenied},
	{"blocked by a guardrail", PolicyViolation},
	{"rate limit reached for", RateLimit},
	{"code execution blocked", RceRisk},
	{"finishreason.blocklist", TermBlocklisted},
	{"matched a denied topic", TopicDenied},
	{"user denied execution", ApprovalDenied},
	{"blocked by dlp policy", ExfiltrationRisk},
	{"exfiltration detected", ExfiltrationRisk},
	{"guardrail unavailable", GuardrailUnavailable},
	{"finishreason.language", LanguageUnsupported},
	{"agentstuckinlooperror", LoopDetected},
	{"accessdeniedexception", PermissionDenied},
	{"blockedpiientityerror", PiiDetected},
	{"not allowed by policy", PolicyViolation},
	{"request was throttled", RateLimit},
	{"unsafe code execution", RceRisk},
	{"tool is not permitted", ToolNotAllowed},
	{"organization_on_hold", AccountSuspended},
	{"approval is required", ApprovalRequired},
	{"error_max_budget_usd", BudgetExceeded},
	{"blockedreason.safety", ContentOther},
	{"blocked-by-allowlist", EgressDenied},
	{"elicitation declined", ElicitationDeclined},
	{"exfiltration attempt", ExfiltrationRisk},
	{"exfiltration blocked", ExfiltrationRisk},
	{"guardrail_intervened", FilteredUnspecified},
	{"content_filter_error", GuardrailUnavailable},
	{"i cannot assist with", ModelDeclined},
	{"blocked by guardrail", PolicyViolation},
	{"disallowed by policy", PolicyViolation},
	{"guardrails_violation", PolicyViolation},
	{"prohibited by policy", PolicyViolation},
	{"tool is not verified", UnverifiedTool},
	{"account_deactivated", AccountSuspended},
	{"approval was denied", ApprovalDenied},
	{"finishreason.safety", ContentOther},
	{"integrity violation", IntegrityFailure},
	{"input_ip_prohibited", IpProtected},
	{"forbidden by policy", PolicyViolation},
	{"guardrail triggered", PolicyViolation},
	{"guardrail violation", PolicyViolation},
	{"exceeded rate limit", RateLimit},
	{"rate limit exceeded", RateLimit},
	{"throttlingexception", RateLimit},
	{"task_state_rejected", TaskRejected},
	{"tool is not allowed", ToolNotAllowed},
	{"consumer_suspended", AccountSuspended},
	{"insufficient_quota", BudgetExceeded},
	{"usagelimitexceeded", BudgetExceeded},
	{"moderation_blocked", ContentOther},
	{"jailbreak detected", JailbreakWrapper},
	{"repeated tool call", LoopDetected},
	{"insufficient_scope", PermissionDenied},
	{"blocked due to pii", PiiDetected},
	{"prohibited_content", PlatformProhibited},
	{"rego_compile_error", PolicyInvalid},
	{"rejected by policy", PolicyViolation},
	{"rate limit reached", RateLimit},
	{"tool not permitted", ToolNotAllowed},
	{"tool is not pinned", UnverifiedTool},
	{"approval required", ApprovalRequired},
	{"requires approval", ApprovalRequired},
	{"idempotency_error", IdempotencyConflict},
	{"integrity failure", IntegrityFailure},
	{"jailbreak attempt", JailbreakWrapper},
	{"jailbreak blocked", JailbreakWrapper},
	{"modelrefusalerror", ModelDeclined},
	{"finishreason.spii", PiiDetected},
	{"piidetectionerror", PiiDetected},
	{"blocked by policy", PolicyViolation},
	{"guardrail blocked", PolicyViolation},
	{"too many requests", RateLimit},
	{"disallowed import", RiskyImport},
	{"tool call blocked", ToolNotAllowed},
	{"tool call refused", ToolNotAllowed},
	{"tool not verified", UnverifiedTool},
	{"maxturnsexceeded", BudgetExceeded},
	{"rego_parse_error", PolicyInvalid},
	{"denied by policy", PolicyViolation},
	{"policy violation", PolicyViolation},
	{"rate_limit_error", RateLimit},
	{"ratelimitreached", RateLimit},
	{"dangerous import", RiskyImport},
	{"forbidden import", RiskyImport},
	{"banned substring", TermBlocklisted},
	{"tool call denied", ToolNotAllowed},
	{"tool not allowed", ToolNotAllowed},
	{"approval denied", ApprovalDenied},
	{"budget exceeded", BudgetExceeded},
	{"error_max_turns", BudgetExceeded},
	{"stuck in a loop", LoopDetected},
	{"violates policy", PolicyViolation},
	{"disallowed tool", ToolNotAllowed},
	{"unverified tool", UnverifiedTool},
	{"exceededbudget", BudgetExceeded},
	{"egress blocked", EgressDenied},
	{"rate limit hit", RateLimit},
	{"forbidden tool", ToolNotAllowed},
	{"untrusted tool", UnverifiedTool},
	{"egress denied", EgressDenied},
	{"loop detected", LoopDetected},
	{"cannot comply", ModelDeclined},
	{"unsafe import", RiskyImport},
	{"rate limited", RateLimit},
	{"rate-limited", RateLimit},
	{"risky import", RiskyImport},
	{"error_toxic", ContentOther},
}

// Characters that the comparison of phrases folds, each followed by what it becomes.
var foldings = []string{
	"A", "a",
	"B", "b",
	"C", "c",
	"D", "d",
	"E", "e",
	"F", "f",
	"G", "g",
	"H", "h",
	"I", "i",
	"J", "j",
	"K", "k",
	"L", "l",
	"M", "m",
	"N", "n",
	"O", "o",
	"P", "p",
	"Q", "q",
	"R", "r",
	"S", "s",
	"T", "t",
	"U", "u",
	"V", "v",
	"W", "w",
	"X", "x",
	"Y", "y",
	"Z", "z",
	"ß", "ss",
	"İ", "i̇",
	"ŉ", "ʼn",
	"ſ", "s",
	"ǰ", "ǰ",
	"ẖ", "ẖ",
	"ẗ", "ẗ",
	"ẘ", "ẘ",
	"ẙ", "ẙ",
	"ẚ", "aʾ",
	"ẞ", "ss",
	"K", "k",
	"ﬀ", "ff",
	"ﬁ", "fi",
	"ﬂ", "fl",
	"ﬃ", "ffi",
	"ﬄ", "ffl",
	"ﬅ", "st",
	"ﬆ", "st",
}

// Lookup returns what the registry says about a code, and whether it knows the code.
func Lookup(code string) (Info, bool) {
	info, known := infos[code]
	return info, known
}

// All returns what the registry says about every code, in the order of the registry.
func All() []Info {
	return append([]Info(nil), all...)
}
