package main

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
	codeTimeout     = "wait_timeout"
	codeInterrupted = "interrupted"
	codeDeclined    = "declined"
	codeStalled     = "stalled"
	codeFindings    = "findings"
	codeTour        = "tour_failed"
)

// failure is an error as a person reads it: four lines, and an exit code for
// whoever does not read.
type failure struct {
	Message, Code, Try, Correlation string
	Exit                            int
	// Details are what the server said besides.
	Details map[string]any
	// Silent is an exit code that is an answer, and no error.
	Silent bool
}

func (f *failure) Error() string { return f.Message }

func (f *failure) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "Error: %s\nCode: %s\nTry: %s\nCorrelation: %s\n",
		oneLine(f.Message), f.Code, oneLine(f.Try), cmp.Or(f.Correlation, "-"))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func usage(format string, args ...any) *failure {
	return &failure{Message: fmt.Sprintf(format, args...), Code: codeUsage, Exit: exitUsage}
}

// explain finds the words for an error.
func (a *app) explain(ctx context.Context, err error) *failure {
	var known *failure
	var coded *errs.Error
	switch {
	case errors.As(err, &known):
		f := *known
		f.Try = cmp.Or(f.Try, remedy(errs.Code(f.Code), f.Exit))
		return &f
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return &failure{Message: "interrupted", Code: codeInterrupted, Try: "the same command again", Exit: exitInterrupted}
	// Cobra checks these only after it has called the hook.
	case !a.started || strings.HasPrefix(err.Error(), "required flag(s)") || strings.Contains(err.Error(), "flags in the group ["):
		return &failure{Message: err.Error(), Code: codeUsage, Try: "gpuaas --help", Exit: exitUsage}
	case errors.As(err, &coded):
		// With its cause: this failed on the person's own machine.
		return &failure{
			Message: err.Error(), Code: string(coded.Code),
			Try: cmp.Or(coded.Suggestion, remedy(coded.Code, exitOf(coded.Code))), Exit: exitOf(coded.Code),
		}
	default:
		return &failure{Message: err.Error(), Code: string(errs.Internal), Try: remedy(errs.Internal, exitFailure), Exit: exitFailure}
	}
}

// remedy is what to try when neither the server nor the command knows better.
func remedy(code errs.Code, exit int) string {
	switch code { //nolint:exhaustive // the codes whose remedy is a command; the others have one by exit code
	case errs.InsufficientBalance, errs.RunwayTooShort, errs.SpendLimitExceeded:
		return "gpuaas balance, and release what you no longer need"
	case errs.SKUUnavailable, errs.SKUUnknown:
		return "gpuaas get skus"
	case errs.ProjectRequired:
		return "--project NAME, or GPUAAS_PROJECT"
	case errs.SSHKeyInvalid:
		return "give one line of a .pub file"
	}
	switch exit {
	case exitUsage:
		return "gpuaas help"
	case exitSignIn:
		return "gpuaas login, or set GPUAAS_TOKEN to an API key"
	case exitNotFound:
		return "gpuaas get allocations, or get nodes, or get skus"
	case exitConflict:
		return "look again with gpuaas describe, then repeat"
	case exitDenied:
		return "ask an owner of the project or an operator"
	case exitTimeout:
		return "wait longer with --timeout"
	default:
		return "gpuaas doctor"
	}
}
