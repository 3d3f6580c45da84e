package errs

// Code is an error code of the catalogue: stable, lower_snake, documented at
// /docs/reference/errors.
type Code string

// The catalogue, by the HTTP status of the response.
const (
	// 400
	BadRequest              Code = "bad_request"
	ValidationError         Code = "validation_error"
	UnknownParameter        Code = "unknown_parameter"
	CursorInvalid           Code = "cursor_invalid"
	ProjectRequired         Code = "project_required"
	OIDCExchangeFailed      Code = "oidc_exchange_failed"
	SignatureInvalid        Code = "signature_invalid"
	PaymentAmountOutOfRange Code = "payment_amount_out_of_range"
	StoragePathTraversal    Code = "storage_path_traversal"
	StorageQuotaExceeded    Code = "storage_quota_exceeded"
	// 401
	TokenMissing          Code = "token_missing"
	TokenExpired          Code = "token_expired"
	TokenInvalid          Code = "token_invalid"
	LoginFailed           Code = "login_failed"
	StepUpRequired        Code = "step_up_required"
	TerminalTokenInvalid  Code = "terminal_token_invalid"
	TokenInURL            Code = "token_in_url"
	EnrolmentTokenInvalid Code = "enrolment_token_invalid"
	CertificateRequired   Code = "certificate_required"
	// 402
	InsufficientBalance Code = "insufficient_balance"
	RunwayTooShort      Code = "runway_too_short"
	SpendLimitExceeded  Code = "spend_limit_exceeded"
	// 403
	Forbidden            Code = "forbidden"
	PolicyDenied         Code = "policy_denied"
	OriginNotAllowed     Code = "origin_not_allowed"
	NodeIdentityMismatch Code = "node_identity_mismatch"
	CertificateRevoked   Code = "certificate_revoked"
	// 404
	NotFound              Code = "not_found"
	UserNotFound          Code = "user_not_found"
	StorageObjectNotFound Code = "storage_object_not_found"
	// 405
	MethodNotAllowed Code = "method_not_allowed"
	// 409
	Conflict                   Code = "conflict"
	AlreadyExists              Code = "already_exists"
	IdempotencyInFlight        Code = "idempotency_in_flight"
	SKUUnavailable             Code = "sku_unavailable"
	IsolationUnavailable       Code = "isolation_unavailable"
	AllocationAlreadyReleasing Code = "allocation_already_releasing"
	AllocationFinal            Code = "allocation_final"
	AllocationNotActive        Code = "allocation_not_active"
	ForceReleaseNotAllowed     Code = "force_release_not_allowed"
	NodeInUse                  Code = "node_in_use"
	DrainOwnedByOther          Code = "drain_owned_by_other"
	ProofMissing               Code = "proof_missing"
	ManagedByGit               Code = "managed_by_git"
	ManagedByAPI               Code = "managed_by_api"
	PlanStale                  Code = "plan_stale"
	ApprovalRequired           Code = "approval_required"
	StaleFence                 Code = "stale_fence"
	StaleReport                Code = "stale_report"
	TaskSuperseded             Code = "task_superseded"
	ProjectNotEmpty            Code = "project_not_empty"
	TenantNotEmpty             Code = "tenant_not_empty"
	// 412
	VersionMismatch Code = "version_mismatch"
	// 428
	VersionRequired Code = "version_required"
	// 413
	BodyTooLarge Code = "body_too_large"
	// 415
	MediaTypeUnsupported Code = "media_type_unsupported"
	// 422
	IdempotencyKeyReused   Code = "idempotency_key_reused"
	RefundWindowExceeded   Code = "refund_window_exceeded"
	RefundExceedsPayment   Code = "refund_exceeds_payment"
	RefundExceedsCharges   Code = "refund_exceeds_charges"
	SKUUnknown             Code = "sku_unknown"
	SSHKeyInvalid          Code = "ssh_key_invalid"
	SpecInvalid            Code = "spec_invalid"
	PolicyNotInForce       Code = "policy_not_in_force"
	PruneLimit             Code = "prune_limit"
	ChangeNeedsReplacement Code = "change_needs_replacement"
	// 431
	HeaderTooLarge Code = "header_too_large"
	// 429
	RateLimited             Code = "rate_limited"
	ConcurrencyLimitReached Code = "concurrency_limit_reached"
	// 500
	Internal         Code = "internal"
	DecryptionFailed Code = "decryption_failed"
	// 502
	ProviderFailed Code = "provider_failed"
	// 503
	Unavailable        Code = "unavailable"
	LimiterUnavailable Code = "limiter_unavailable"
	AdmissionClosed    Code = "admission_closed"
	// 504
	AgentTimeout Code = "agent_timeout"
)

// All lists the catalogue in the sequence above.
func All() []Code {
	return []Code{
		BadRequest,
		ValidationError,
		UnknownParameter,
		CursorInvalid,
		ProjectRequired,
		OIDCExchangeFailed,
		SignatureInvalid,
		PaymentAmountOutOfRange,
		StoragePathTraversal,
		StorageQuotaExceeded,
		TokenMissing,
		TokenExpired,
		TokenInvalid,
		LoginFailed,
		StepUpRequired,
		TerminalTokenInvalid,
		TokenInURL,
		EnrolmentTokenInvalid,
		CertificateRequired,
		InsufficientBalance,
		RunwayTooShort,
		SpendLimitExceeded,
		Forbidden,
		PolicyDenied,
		OriginNotAllowed,
		NodeIdentityMismatch,
		CertificateRevoked,
		NotFound,
		UserNotFound,
		StorageObjectNotFound,
		MethodNotAllowed,
		Conflict,
		AlreadyExists,
		IdempotencyInFlight,
		SKUUnavailable,
		IsolationUnavailable,
		AllocationAlreadyReleasing,
		AllocationFinal,
		AllocationNotActive,
		ForceReleaseNotAllowed,
		NodeInUse,
		DrainOwnedByOther,
		ProofMissing,
		ManagedByGit,
		ManagedByAPI,
		PlanStale,
		ApprovalRequired,
		StaleFence,
		StaleReport,
		TaskSuperseded,
		ProjectNotEmpty,
		TenantNotEmpty,
		VersionMismatch,
		VersionRequired,
		BodyTooLarge,
		MediaTypeUnsupported,
		IdempotencyKeyReused,
		RefundWindowExceeded,
		RefundExceedsPayment,
		RefundExceedsCharges,
		SKUUnknown,
		SSHKeyInvalid,
		SpecInvalid,
		PolicyNotInForce,
		PruneLimit,
		ChangeNeedsReplacement,
		HeaderTooLarge,
		RateLimited,
		ConcurrencyLimitReached,
		Internal,
		DecryptionFailed,
		ProviderFailed,
		Unavailable,
		LimiterUnavailable,
		AdmissionClosed,
		AgentTimeout,
	}
}
