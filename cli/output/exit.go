package output

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// The exit codes. A script may branch on them, so they never change meaning.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitTimeout     = 3
	ExitSignIn      = 4
	ExitNotFound    = 5
	ExitConflict    = 6
	ExitDenied      = 7
	exitLimit       = 8
	ExitDiffers     = 1   // diff: an answer, and no failure
	ExitChanges     = 2   // plan --detailed-exitcode: the same
	ExitInterrupted = 130 // 128 + SIGINT, as shells count
)

// ExitOf is the one table from the catalogue of codes to exit codes. It has no
// default, so that the linter finds a code that was forgotten.
func ExitOf(code errs.Code) int {
	switch code {
	case errs.BadRequest, errs.ValidationError, errs.UnknownParameter, errs.CursorInvalid, errs.ProjectRequired,
		errs.PaymentAmountOutOfRange, errs.StoragePathTraversal, errs.BodyTooLarge, errs.MediaTypeUnsupported,
		errs.SSHKeyInvalid, errs.MethodNotAllowed, errs.HeaderTooLarge:
		return ExitUsage
	case errs.AgentTimeout:
		return ExitTimeout
	case errs.TokenMissing, errs.TokenExpired, errs.TokenInvalid, errs.LoginFailed, errs.StepUpRequired, errs.TerminalTokenInvalid,
		errs.TokenInURL, errs.EnrolmentTokenInvalid, errs.CertificateRequired, errs.OIDCExchangeFailed:
		return ExitSignIn
	case errs.NotFound, errs.UserNotFound, errs.StorageObjectNotFound, errs.SKUUnknown:
		return ExitNotFound
	case errs.Conflict, errs.AlreadyExists, errs.IdempotencyInFlight, errs.IdempotencyKeyReused,
		errs.AllocationAlreadyReleasing, errs.AllocationFinal, errs.AllocationNotActive, errs.NodeInUse,
		errs.DrainOwnedByOther, errs.ProofMissing, errs.ManagedByGit, errs.ManagedByAPI, errs.PlanStale,
		errs.ApprovalRequired, errs.StaleFence, errs.StaleReport, errs.TaskSuperseded, errs.ProjectNotEmpty, errs.TenantNotEmpty,
		errs.VersionMismatch, errs.VersionRequired, errs.PruneLimit, errs.ChangeNeedsReplacement:
		return ExitConflict
	case errs.Forbidden, errs.PolicyDenied, errs.OriginNotAllowed, errs.NodeIdentityMismatch,
		errs.CertificateRevoked, errs.ForceReleaseNotAllowed:
		return ExitDenied
	case errs.InsufficientBalance, errs.RunwayTooShort, errs.SpendLimitExceeded, errs.SKUUnavailable, errs.IsolationUnavailable,
		errs.ConcurrencyLimitReached, errs.AdmissionClosed, errs.StorageQuotaExceeded, errs.RefundWindowExceeded, errs.RefundExceedsCharges,
		errs.RefundExceedsPayment:
		return exitLimit
	case errs.SignatureInvalid, errs.SpecInvalid, errs.PolicyNotInForce, errs.RateLimited, errs.Internal, errs.DecryptionFailed, errs.ProviderFailed,
		errs.Unavailable, errs.LimiterUnavailable:
		return ExitFailure
	}
	return ExitFailure // a code of a newer server
}

// Meanings are in the sequence in which help prints them.
func Meanings() [][2]string {
	return [][2]string{
		{"0", "done"},
		{"1", "failure; doctor, validate, audit verify and ledger verify: there are findings; diff: there are differences"},
		{"2", "usage: the command line or a value in it is invalid; diff: failure; plan --detailed-exitcode: there are changes"},
		{"3", "a wait timed out; the operation continues"},
		{"4", "not signed in"},
		{"5", "not found"},
		{"6", "conflict with the current state, or a stale version"},
		{"7", "denied: your role does not allow it"},
		{"8", "balance, cap or capacity"},
		{"130", "interrupted; the operation continues"},
	}
}

func NewExitCodes() *cobra.Command {
	var text strings.Builder
	text.WriteString("Exit codes:\n")
	for _, m := range Meanings() {
		fmt.Fprintf(&text, "  %-5s%s\n", m[0], m[1])
	}
	// Without Run cobra lists it as a help topic and not as a command.
	return &cobra.Command{Use: "exit-codes", Short: "Show the exit codes", Long: text.String()}
}
