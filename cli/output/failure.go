package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Codes of the command line's own; all others are the catalogue's.
const (
	codeUsage       = "usage"
	CodeTimeout     = "wait_timeout"
	CodeInterrupted = "interrupted"
	CodeDeclined    = "declined"
	CodeStalled     = "stalled"
	CodeFindings    = "findings"
	CodeTour        = "tour_failed"
	CodeSimulated   = "simulated_node"
)

// CommandError is an error for users, in four lines, and for scripts, as an exit code.
type CommandError struct {
	Message, Code, Try, Correlation string
	Exit                            int
	// Details are the details of the server's error.
	Details map[string]any
	// Silent is an exit code that is an answer, and no error.
	Silent bool
}

func (f *CommandError) Error() string { return f.Message }

func (f *CommandError) Print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "Error: %s\nCode: %s\nTry: %s\nCorrelation: %s\n",
		OneLine(f.Message), f.Code, OneLine(f.Try), cmp.Or(f.Correlation, "-"))
}

func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func UsageError(format string, args ...any) *CommandError {
	return &CommandError{Message: fmt.Sprintf(format, args...), Code: codeUsage, Exit: ExitUsage}
}

// Explain converts an error for display.
func (a *Console) Explain(ctx context.Context, err error) *CommandError {
	var known *CommandError
	var coded *errs.Error
	switch {
	case errors.As(err, &known):
		f := *known
		f.Try = cmp.Or(f.Try, Remedy(errs.Code(f.Code), f.Exit))
		return &f
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return &CommandError{Message: "interrupted", Code: CodeInterrupted, Try: "the same command again", Exit: ExitInterrupted}
	// Cobra checks these only after it has called the hook.
	case !a.Started || strings.HasPrefix(err.Error(), "required flag(s)") || strings.Contains(err.Error(), "flags in the group ["):
		return &CommandError{Message: err.Error(), Code: codeUsage, Try: "gpuaas --help", Exit: ExitUsage}
	case errors.As(err, &coded):
		// The cause is included, since the error is local.
		return &CommandError{
			Message: err.Error(), Code: string(coded.Code),
			Try: cmp.Or(coded.Suggestion, Remedy(coded.Code, ExitOf(coded.Code))), Exit: ExitOf(coded.Code),
		}
	default:
		return &CommandError{Message: err.Error(), Code: string(errs.Internal), Try: Remedy(errs.Internal, ExitFailure), Exit: ExitFailure}
	}
}

// Remedy returns a suggestion if neither the server nor the command has one.
func Remedy(code errs.Code, exit int) string {
	switch code { //nolint:exhaustive // the codes whose remedy is a command; the others have one by exit code
	case errs.InsufficientBalance, errs.RunwayTooShort, errs.SpendLimitExceeded:
		return "gpuaas balance, or release allocations"
	case errs.SKUUnavailable, errs.SKUUnknown:
		return "gpuaas get skus"
	case errs.ProjectRequired:
		return "--project NAME, or GPUAAS_PROJECT"
	case errs.SSHKeyInvalid:
		return "give one line of a .pub file"
	}
	switch exit {
	case ExitUsage:
		return "gpuaas help"
	case ExitSignIn:
		return "gpuaas login, or set GPUAAS_TOKEN to an API key"
	case ExitNotFound:
		return "gpuaas get allocations, or get nodes, or get skus"
	case ExitConflict:
		return "read the object again with gpuaas describe, then repeat the command"
	case ExitDenied:
		return "request access from an owner of the project or an operator"
	case ExitTimeout:
		return "wait longer with --timeout"
	default:
		return "gpuaas doctor"
	}
}
