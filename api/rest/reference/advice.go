package reference

import "github.com/gpuaas/gpuaas/internal/errs"

// Advice says what to do about a code. It is the suggestion of every failure that
// has none of its own; a test asks for every code.
func Advice(code errs.Code) string {
	switch code { //nolint:exhaustive // the other half follows
	case errs.BadRequest:
		return "Compare the request with the API reference."
	case errs.ValidationError:
		return "Correct the field that is named, and send the request again."
	case errs.UnknownParameter:
		return "Remove the parameter, or look for a typing error in its name."
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
		return "Delete something, or ask for a larger quota."
	case errs.TokenMissing:
		return "Sign in, or send Authorization: Bearer with a key."
	case errs.TokenExpired:
		return "Sign in again, or make a new key."
	case errs.TokenInvalid:
		return "Check that the whole key was sent; make a new one if it was revoked."
	case errs.LoginFailed:
		return "Check the name and password."
	case errs.TerminalTokenInvalid:
		return "Ask for a new terminal token; each works once, for its own allocation."
	case errs.TokenInURL:
		return "Send the token in a header and replace it: URLs end up in logs."
	case errs.EnrolmentTokenInvalid:
		return "Ask an operator for a new enrolment token; each works once, for its own node."
	case errs.CertificateRequired:
		return "Present the node's certificate."
	case errs.InsufficientBalance:
		return "Top up the balance, or ask for fewer GPUs."
	case errs.RunwayTooShort:
		return "Top up the balance until it lasts for the runway that is named."
	case errs.SpendLimitExceeded:
		return "Release something, or ask an owner to raise the limit."
	case errs.Forbidden:
		return "Ask an owner or administrator for a role that may do this."
	case errs.PolicyDenied:
		return "Ask an operator about the policy that is named."
	case errs.OriginNotAllowed:
		return "Send the request from a page of this site, or use a key instead of the cookie."
	case errs.NodeIdentityMismatch:
		return "A node may only speak for itself: enrol it again."
	case errs.CertificateRevoked:
		return "Enrol the node again."
	case errs.NotFound:
		return "Check the name or id, and that it belongs to your tenant."
	case errs.UserNotFound:
		return "Sign in once, so that the user exists."
	case errs.StorageObjectNotFound:
		return "List the folder to see what is there."
	case errs.MethodNotAllowed:
		return "Use one of the methods in the Allow header."
	}
	return adviceOnState(code)
}

// adviceOnState is about requests that were understood.
func adviceOnState(code errs.Code) string {
	switch code { //nolint:exhaustive // the other half stands before
	case errs.Conflict:
		return "Read the resource again and decide anew."
	case errs.AlreadyExists:
		return "Use another name, or the one that exists."
	case errs.IdempotencyInFlight:
		return "Send the same request again in a moment: it will get the first answer."
	case errs.SKUUnavailable:
		return "Ask for fewer GPUs, another region or SKU, or send `queue` to wait for capacity."
	case errs.AllocationAlreadyReleasing:
		return "Nothing: it is being released."
	case errs.AllocationFinal:
		return "Nothing: it has ended. Create another one."
	case errs.AllocationNotActive:
		return "Wait until the allocation is active."
	case errs.ForceReleaseNotAllowed:
		return "Release it first; force is for a release that has failed."
	case errs.NodeInUse:
		return "Drain the node first."
	case errs.DrainOwnedByOther:
		return "Ask the owner of the drain, who is named."
	case errs.ProofMissing:
		return "Wait for the node's proof that it is clean, or reimage it."
	case errs.ManagedByGit:
		return "Edit the file and line that are named, and commit."
	case errs.ManagedByAPI:
		return "Change it through the API; it is not kept in Git."
	case errs.PlanStale:
		return "Make a new plan: the world has moved on since."
	case errs.ApprovalRequired:
		return "Have another operator or administrator approve the plan."
	case errs.StaleFence, errs.StaleReport, errs.TaskSuperseded:
		return "Nothing: something newer has taken its place."
	case errs.ProjectNotEmpty:
		return "Release and delete what lives in the project first."
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
		return "Ask for an amount and a credit that may still be refunded."
	case errs.SKUUnknown:
		return "List what is sold at /api/v1/skus."
	case errs.SSHKeyInvalid:
		return "Send the one line of your .pub file; ssh-keygen -t ed25519 makes a pair."
	case errs.SpecInvalid:
		return "Correct the place that is named."
	case errs.PruneLimit:
		return "Approve the removal, or remove less at once."
	case errs.ChangeNeedsReplacement:
		return "Create a new one and release the old."
	case errs.RateLimited:
		return "Wait for the seconds in Retry-After."
	case errs.ConcurrencyLimitReached:
		return "Release an allocation first, or ask for a higher limit."
	case errs.Internal:
		return "Quote the correlation id when you report it."
	case errs.ProviderFailed, errs.Unavailable, errs.LimiterUnavailable:
		return "Try again after the seconds in Retry-After; the request may be repeated safely with an idempotency key."
	case errs.AdmissionClosed:
		return "Try again later: nothing new is taken in for now."
	case errs.AgentTimeout:
		return "The machine did not answer in time; look at its reachability."
	}
	return ""
}
