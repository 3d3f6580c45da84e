// Package response writes responses: problems, pages of lists with cursors, CSV exports, and the forms
// that several resources share.
package response

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/reference"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// StatusOf returns the HTTP status of a code. It has no default, so that the linter finds a code that is
// missing here.
func StatusOf(code errs.Code) int {
	switch code {
	case errs.BadRequest, errs.ValidationError, errs.UnknownParameter, errs.CursorInvalid, errs.ProjectRequired,
		errs.OIDCExchangeFailed, errs.SignatureInvalid, errs.PaymentAmountOutOfRange, errs.StoragePathTraversal, errs.StorageQuotaExceeded:
		return http.StatusBadRequest
	case errs.TokenMissing, errs.TokenExpired, errs.TokenInvalid, errs.LoginFailed, errs.StepUpRequired, errs.TerminalTokenInvalid, errs.TokenInURL,
		errs.EnrolmentTokenInvalid, errs.CertificateRequired:
		return http.StatusUnauthorized
	case errs.InsufficientBalance, errs.RunwayTooShort, errs.SpendLimitExceeded:
		return http.StatusPaymentRequired
	case errs.Forbidden, errs.PolicyDenied, errs.OriginNotAllowed, errs.NodeIdentityMismatch, errs.CertificateRevoked:
		return http.StatusForbidden
	case errs.NotFound, errs.UserNotFound, errs.StorageObjectNotFound:
		return http.StatusNotFound
	case errs.MethodNotAllowed:
		return http.StatusMethodNotAllowed
	case errs.Conflict, errs.AlreadyExists, errs.IdempotencyInFlight, errs.SKUUnavailable, errs.IsolationUnavailable, errs.AllocationAlreadyReleasing,
		errs.AllocationFinal, errs.AllocationNotActive, errs.ForceReleaseNotAllowed, errs.NodeInUse, errs.DrainOwnedByOther,
		errs.ProofMissing, errs.ManagedByGit, errs.ManagedByAPI, errs.PlanStale, errs.ApprovalRequired, errs.StaleFence,
		errs.StaleReport, errs.TaskSuperseded, errs.ProjectNotEmpty, errs.TenantNotEmpty:
		return http.StatusConflict
	case errs.VersionMismatch:
		return http.StatusPreconditionFailed
	case errs.VersionRequired:
		return http.StatusPreconditionRequired
	case errs.BodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case errs.MediaTypeUnsupported:
		return http.StatusUnsupportedMediaType
	case errs.IdempotencyKeyReused, errs.RefundWindowExceeded, errs.RefundExceedsPayment, errs.RefundExceedsCharges, errs.SKUUnknown, errs.SSHKeyInvalid,
		errs.SpecInvalid, errs.PolicyNotInForce, errs.PruneLimit, errs.ChangeNeedsReplacement:
		return http.StatusUnprocessableEntity
	case errs.HeaderTooLarge:
		return http.StatusRequestHeaderFieldsTooLarge
	case errs.RateLimited, errs.ConcurrencyLimitReached:
		return http.StatusTooManyRequests
	case errs.Internal, errs.DecryptionFailed:
		return http.StatusInternalServerError
	case errs.ProviderFailed:
		return http.StatusBadGateway
	case errs.Unavailable, errs.LimiterUnavailable, errs.AdmissionClosed:
		return http.StatusServiceUnavailable
	case errs.AgentTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// Problems responds with errors in the form of the contract.
type Problems struct{ Log *slog.Logger }

// Fail responds with the problem of an error. Every failed request ends here.
func (s *Problems) Fail(c *gin.Context, err error) {
	ctx, r := request.Of(c)
	e := s.coded(ctx, r.CorrelationID, c.FullPath(), err)
	s.Reject(c, StatusOf(e.Code), e)
}

// Write is Fail for a request of a router without gin, which telemetry.Traced wraps.
func (s *Problems) Write(w http.ResponseWriter, r *http.Request, err error) {
	correlation := w.Header().Get(telemetry.CorrelationHeader)
	e := s.coded(r.Context(), correlation, r.Pattern, err)
	status := StatusOf(e.Code)
	body := s.encode(r.Context(), status, correlation, r.URL.Path, e)
	h := w.Header()
	headers(h, status)
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON, which no browser shows as a page
}

// coded returns the coded error in the chain of err. An error without a code is a fault of the server:
// the log contains all of it, and the response nothing.
func (s *Problems) coded(ctx context.Context, correlation, path string, err error) *errs.Error {
	var e *errs.Error
	switch {
	case errors.As(err, &e) && e.Code != errs.Internal:
		return e
	case ctx.Err() != nil: // the client has disconnected and reads no response
		return errs.New(errs.Unavailable, "the request was given up")
	case away(err):
		s.Log.WarnContext(ctx, "request failed: database is away", slog.String("correlation_id", correlation), slog.Any("err", err))
		return errs.New(errs.Unavailable, "the database is away").Try("repeat the request in a moment")
	}
	s.Log.ErrorContext(ctx, "request failed", slog.String("correlation_id", correlation), slog.String("path", path), slog.Any("err", err))
	return errs.New(errs.Internal, "the server failed")
}

// AsCoded returns the coded error in the chain of err, or nil.
func AsCoded(err error) *errs.Error {
	e, _ := errors.AsType[*errs.Error](err)
	return e
}

// away returns whether the database is gone or starting, so that the same request may succeed in a
// moment.
func away(err error) bool {
	var connect *pgconn.ConnectError
	var server *pgconn.PgError
	var network net.Error
	switch {
	case errors.As(err, &connect), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &server):
		// operator intervention, connection exception, insufficient resources
		return strings.HasPrefix(server.Code, "57P") || strings.HasPrefix(server.Code, "08") || strings.HasPrefix(server.Code, "53")
	}
	return errors.As(err, &network) && !errors.Is(err, context.Canceled)
}

// retryAfter is the time in seconds after which a client repeats a request. PostgreSQL starts in less.
const retryAfter = "1"

// Reject responds with a problem and ends the request.
func (s *Problems) Reject(c *gin.Context, status int, e *errs.Error) {
	ctx, r := request.Of(c)
	r.Code = e.Code
	body := s.encode(ctx, status, r.CorrelationID, c.Request.URL.Path, e)
	headers(c.Writer.Header(), status)
	contentType := "application/json"
	if strings.Contains(c.GetHeader("Accept"), "application/problem+json") {
		contentType = "application/problem+json"
	}
	c.Data(status, contentType, body)
	c.Abort()
}

// encode returns the JSON of a problem.
func (s *Problems) encode(ctx context.Context, status int, correlation, path string, e *errs.Error) []byte {
	details := map[string]any{}
	maps.Copy(details, e.Details)
	if e.Field != "" {
		details["field"] = e.Field
	}
	if e.Suggestion != "" {
		details["suggestion"] = e.Suggestion
	} else if status < http.StatusInternalServerError {
		details["suggestion"] = reference.Advice(e.Code)
	}
	body, err := json.Marshal(oapi.Problem{
		Code: oapi.ErrorCode(e.Code), Message: e.Message, CorrelationId: correlation, Details: details,
		Type: reference.Path + "#" + string(e.Code), Title: http.StatusText(status), Status: status, Instance: path,
	})
	if err != nil { // a detail without a JSON form is a bug of the service that set it
		s.Log.ErrorContext(ctx, "encoding a problem", slog.Any("err", err))
	}
	return body
}

// headers sets the headers of a problem.
func headers(h http.Header, status int) {
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="gpuaas"`)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter)
	}
	h.Set("Cache-Control", "no-store")
}

// NoRoute responds to a path that does not exist.
func (s *Problems) NoRoute(c *gin.Context) {
	s.Fail(c, errs.New(errs.NotFound, "the path does not exist").Try("the calls are listed at /api/docs"))
}

// NoMethod responds to a path that exists for other methods. Gin has set Allow.
func (s *Problems) NoMethod(c *gin.Context) {
	s.Fail(c, errs.New(errs.MethodNotAllowed, "the path does not accept %s", c.Request.Method).
		Try("use %s", c.Writer.Header().Get("Allow")))
}
