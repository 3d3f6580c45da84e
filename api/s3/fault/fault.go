// Package fault has the errors of the S3 protocol. Clients choose what to do by their codes.
package fault

import (
	"fmt"
	"net/http"
)

// Code is an error code of S3.
type Code string

// The codes that the endpoint returns.
const (
	AccessDenied                 Code = "AccessDenied"
	AuthorizationHeaderMalformed Code = "AuthorizationHeaderMalformed"
	AuthorizationQueryError      Code = "AuthorizationQueryParametersError"
	BadDigest                    Code = "BadDigest"
	BucketAlreadyExists          Code = "BucketAlreadyOwnedByYou"
	EntityTooLarge               Code = "EntityTooLarge"
	EntityTooSmall               Code = "EntityTooSmall"
	IncompleteBody               Code = "IncompleteBody"
	InternalError                Code = "InternalError"
	InvalidAccessKeyID           Code = "InvalidAccessKeyId"
	InvalidArgument              Code = "InvalidArgument"
	InvalidDigest                Code = "InvalidDigest"
	InvalidPart                  Code = "InvalidPart"
	InvalidPartOrder             Code = "InvalidPartOrder"
	InvalidRange                 Code = "InvalidRange"
	InvalidRequest               Code = "InvalidRequest"
	KeyTooLong                   Code = "KeyTooLongError"
	MalformedXML                 Code = "MalformedXML"
	MetadataTooLarge             Code = "MetadataTooLarge"
	MethodNotAllowed             Code = "MethodNotAllowed"
	MissingContentLength         Code = "MissingContentLength"
	NoSuchBucket                 Code = "NoSuchBucket"
	NoSuchKey                    Code = "NoSuchKey"
	NoSuchUpload                 Code = "NoSuchUpload"
	NotImplemented               Code = "NotImplemented"
	PreconditionFailed           Code = "PreconditionFailed"
	QuotaExceeded                Code = "QuotaExceeded"
	RequestTimeTooSkewed         Code = "RequestTimeTooSkewed"
	ServiceUnavailable           Code = "ServiceUnavailable"
	SignatureDoesNotMatch        Code = "SignatureDoesNotMatch"
	SlowDown                     Code = "SlowDown"
	ContentSHA256Mismatch        Code = "XAmzContentSHA256Mismatch"
)

// status lists the codes with another status than 400.
var status = map[Code]int{
	AccessDenied: http.StatusForbidden, InvalidAccessKeyID: http.StatusForbidden, RequestTimeTooSkewed: http.StatusForbidden, SignatureDoesNotMatch: http.StatusForbidden,
	QuotaExceeded: http.StatusForbidden,
	NoSuchBucket:  http.StatusNotFound, NoSuchKey: http.StatusNotFound, NoSuchUpload: http.StatusNotFound,
	MethodNotAllowed: http.StatusMethodNotAllowed, BucketAlreadyExists: http.StatusConflict,
	MissingContentLength: http.StatusLengthRequired, PreconditionFailed: http.StatusPreconditionFailed, InvalidRange: http.StatusRequestedRangeNotSatisfiable,
	InternalError: http.StatusInternalServerError, NotImplemented: http.StatusNotImplemented, ServiceUnavailable: http.StatusServiceUnavailable, SlowDown: http.StatusServiceUnavailable,
}

// Error is an error of a request.
type Error struct {
	Code    Code
	Message string
	Region  string // of the endpoint, in an error for another region
	cause   error
}

// New returns an error.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Because adds the cause, which the client does not see.
func (e *Error) Because(err error) *Error {
	e.cause = err
	return e
}

// Error returns code and message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Status is the HTTP status of the error.
func (e *Error) Status() int {
	if s, ok := status[e.Code]; ok {
		return s
	}
	return http.StatusBadRequest
}
