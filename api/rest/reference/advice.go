package reference

import "github.com/gpuaas/gpuaas/internal/errs"

// Advice returns the suggestion for a code. Errors without a suggestion of their own use it; a test
// requires one for every code.
func Advice(code errs.Code) string {
	switch code { //nolint:exhaustive // the other half follows
	case errs.BadRequest:
		return "Compare the request with the API reference."
	case errs.ValidationError:
		return "Correct the field that is named, and send the request again."
	case errs.UnknownParameter:
		return "Remove the parameter, or correct a typing error in its name."
	case errs.CursorInvalid:
		return "Start the list again without a cursor."
	case errs.ProjectRequired:
		return "Name the project with X-Project-ID."
	case errs.OIDCExchangeFailed:
		return "Start the sign-in again."
	case errs.SignatureInvalid:
		return "Sign the unchanged body with the present secret."
	case errs.PaymentAmountOutOfRange:
		return "Choose an amount within the limits that are named."
	case errs.StoragePathTraversal:
		return "Send a path without empty, . or .. parts."
	case errs.StorageQuotaExceeded:
		return "Delete stored objects, or request a larger quota."
	case errs.TokenMissing:
		return "Sign in, or send Authorization: Bearer with a key."
	case errs.TokenExpired:
		return "Sign in again, or create a new key."
	case errs.TokenInvalid:
		return "Check that the request contains the whole key; create a new one if it was revoked."
	case errs.LoginFailed:
		return "Check the name and password."
	case errs.StepUpRequired:
		return "Sign in again with gpuaas login --again or at /sign-in?step_up=true, and repeat the request."
	case errs.TerminalTokenInvalid:
		return "Request a new terminal token; each is valid once, for one allocation."
	case errs.TokenInURL:
		return "Send the token in a header and replace it: URLs end up in logs."
	case errs.EnrolmentTokenInvalid:
		return "Request a new enrolment token from an operator; each is valid once, for one node."
	case errs.CertificateRequired:
		return "Present the node's certificate."
	case errs.InsufficientBalance:
		return "Top up the balance, or request fewer GPUs."
	case errs.RunwayTooShort:
		return "Top up the balance until it lasts for the runway that is named."
	case errs.SpendLimitExceeded:
		return "Release an allocation, or request a higher limit from an owner."
	case errs.Forbidden:
		return "Request a role with this permission from an owner or administrator."
	case errs.PolicyDenied:
		return "Contact an operator about the policy in the message."
	case errs.OriginNotAllowed:
		return "Send the request from a page of this site, or use a key instead of the cookie."
	case errs.NodeIdentityMismatch:
		return "A node can only report for itself: enrol it again."
	case errs.CertificateRevoked:
		return "Enrol the node again."
	case errs.NotFound:
		return "Check the name or id, and that it belongs to your tenant."
	case errs.UserNotFound:
		return "Sign in once, so that the user exists."
	case errs.StorageObjectNotFound:
		return "List the folder to find the object."
	case errs.MethodNotAllowed:
		return "Use one of the methods in the Allow header."
	}
	return adviceOnState(code)
}

// adviceOnState is about requests that were understood.
func adviceOnState(code errs.Code) string {
	switch code { //nolint:exhaustive // the other half stands before
	case errs.Conflict:
		return "Read the resource again and repeat the change."
	case errs.AlreadyExists:
		return "Use another name, or the one that exists."
	case errs.IdempotencyInFlight:
		return "Send the same request again in a moment; the API returns the first response."
	case errs.SKUUnavailable:
		return "Request fewer GPUs, another region or SKU, or set `queue` to wait for capacity."
	case errs.AllocationAlreadyReleasing:
		return "Wait until the release completes."
	case errs.AllocationFinal:
		return "Create another allocation; this one has ended."
	case errs.AllocationNotActive:
		return "Wait until the allocation is active."
	case errs.ForceReleaseNotAllowed:
		return "Release it first; force is for a release that has failed."
	case errs.NodeInUse:
		return "Drain the node first."
	case errs.DrainOwnedByOther:
		return "Contact the owner of the drain."
	case errs.ProofMissing:
		return "Wait for the node's proof that it is clean, or reimage it."
	case errs.ManagedByGit:
		return "Edit the file and line that are named, and commit."
	case errs.ManagedByAPI:
		return "Change the object through the API; Git does not manage it."
	case errs.PlanStale:
		return "Create a new plan; desired state has changed."
	case errs.ApprovalRequired:
		return "Have another operator or administrator approve the plan."
	case errs.StaleFence, errs.StaleReport, errs.TaskSuperseded:
		return "None; a newer task replaces it."
	case errs.TenantNotEmpty:
		return "Release the allocations of the tenant, wait until the use is charged, and refund or adjust the balance to 0."
	case errs.ProjectNotEmpty:
		return "Release the allocations of the project first."
	case errs.VersionMismatch:
		return "Read the resource again and repeat the change with its new ETag."
	case errs.VersionRequired:
		return "Send If-Match with the ETag that you have read."
	case errs.BodyTooLarge:
		return "Send less."
	case errs.MediaTypeUnsupported:
		return "Send application/json."
	case errs.HeaderTooLarge:
		return "Send fewer or shorter headers; large cookies are the usual cause."
	case errs.IdempotencyKeyReused:
		return "Use a new key for a new request."
	case errs.RefundWindowExceeded, errs.RefundExceedsPayment:
		return "Request a smaller amount, or name another top-up."
	case errs.RefundExceedsCharges:
		return "Request at most what was charged, or adjust the balance."
	case errs.SKUUnknown:
		return "List the SKUs at /api/v1/skus."
	case errs.SSHKeyInvalid:
		return "Send the line of the .pub file; ssh-keygen -t ed25519 creates a key pair."
	case errs.IsolationUnavailable:
		return "Use an SKU with another isolation; no driver on any node delivers this one."
	case errs.PolicyNotInForce:
		return "Remove the policy; it would have no effect. The list of policy keys states what is missing."
	case errs.SpecInvalid:
		return "Correct the named place."
	case errs.PruneLimit:
		return "Approve the removal, or remove less at once."
	case errs.ChangeNeedsReplacement:
		return "Create a new one and release the old."
	case errs.RateLimited:
		return "Wait for the seconds in Retry-After."
	case errs.ConcurrencyLimitReached:
		return "Release an allocation or end a terminal or a stream first, or request a higher limit."
	case errs.Internal:
		return "Quote the correlation id when you report it."
	case errs.DecryptionFailed:
		return "Report it: a stored secret cannot be decrypted. An operator finds its place in the audit log."
	case errs.ProviderFailed, errs.Unavailable, errs.LimiterUnavailable:
		return "Repeat the request after the seconds in Retry-After. It is safe to repeat with an idempotency key."
	case errs.AdmissionClosed:
		return "Repeat the request later; the platform accepts no new requests now."
	case errs.AgentTimeout:
		return "Check the reachability of the node; it did not report in time."
	}
	return ""
}
