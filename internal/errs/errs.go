// Package errs contains the one coded error type and the catalogue of its codes. A package creates
// a code where a caller must distinguish the failure. An error without a code is our fault and
// never the client's: the API answers "internal" and logs the cause.
package errs

import (
	"errors"
	"fmt"
)

// Error is a failure with a code. Message and Details reach the client; the
// wrapped cause never does.
type Error struct {
	Code    Code
	Message string
	// Field names the invalid input in the client's notation ("gpus", "body.name",
	// "fleet.cue:12:5"). It is empty if no single field is invalid.
	Field string
	// Suggestion describes how to correct the request. It is empty if the message already
	// does.
	Suggestion string
	// Details are further facts for the client, by snake_case name.
	Details map[string]any
	cause   error
}

// New makes an error of a code. The message reaches the client.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid is a validation_error about one field.
func Invalid(field, format string, args ...any) *Error {
	return New(ValidationError, format, args...).At(field)
}

// At names the field that was wrong.
func (e *Error) At(field string) *Error {
	e.Field = field
	return e
}

// Try adds a suggestion.
func (e *Error) Try(format string, args ...any) *Error {
	e.Suggestion = fmt.Sprintf(format, args...)
	return e
}

// With adds one detail.
func (e *Error) With(name string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[name] = value
	return e
}

// Because adds the cause for the log. The client does not receive it.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

func (e *Error) Error() string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is compare codes.
func (e *Error) Is(target error) bool {
	var other *Error
	return errors.As(target, &other) && other.Code == e.Code
}

// CodeOf returns the code of the first coded error in err's chain, or Internal.
// A nil error has no code.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// DetailsOf returns the details of the first coded error in err's chain.
func DetailsOf(err error) map[string]any {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Details
	}
	return nil
}
