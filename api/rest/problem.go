package rest

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
	"github.com/gpuaas/gpuaas/internal/errs"
)

// statusOf is the one place where a code becomes a number. It has no default, so
// that the linter finds a code that was forgotten here.
func statusOf(code errs.Code) int {
	switch code {
	case errs.BadRequest, errs.ValidationError, errs.UnknownParameter, errs.CursorInvalid, errs.ProjectRequired,
		errs.OIDCExchangeFailed, errs.SignatureInvalid, errs.PaymentAmountOutOfRange, errs.StoragePathTraversal, errs.StorageQuotaExceeded:
		return http.StatusBadRequest
	case errs.TokenMissing, errs.TokenExpired, errs.TokenInvalid, errs.LoginFailed, errs.TerminalTokenInvalid, errs.TokenInURL,
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
	case errs.Conflict, errs.AlreadyExists, errs.IdempotencyInFlight, errs.SKUUnavailable, errs.AllocationAlreadyReleasing,
		errs.AllocationFinal, errs.AllocationNotActive, errs.ForceReleaseNotAllowed, errs.NodeInUse, errs.DrainOwnedByOther,
		errs.ProofMissing, errs.ManagedByGit, errs.ManagedByAPI, errs.PlanStale, errs.ApprovalRequired, errs.StaleFence,
		errs.StaleReport, errs.TaskSuperseded, errs.ProjectNotEmpty:
		return http.StatusConflict
	case errs.VersionMismatch:
		return http.StatusPreconditionFailed
	case errs.VersionRequired:
		return http.StatusPreconditionRequired
	case errs.BodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case errs.MediaTypeUnsupported:
		return http.StatusUnsupportedMediaType
	case errs.IdempotencyKeyReused, errs.RefundWindowExceeded, errs.RefundExceedsPayment, errs.SKUUnknown, errs.SSHKeyInvalid,
		errs.SpecInvalid, errs.PruneLimit, errs.ChangeNeedsReplacement:
		return http.StatusUnprocessableEntity
	case errs.HeaderTooLarge:
		return http.StatusRequestHeaderFieldsTooLarge
	case errs.RateLimited, errs.ConcurrencyLimitReached:
		return http.StatusTooManyRequests
	case errs.Internal:
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

// fail answers err. Every failure of this door ends here.
func (s *Server) fail(c *gin.Context, err error) {
	e := s.coded(c, err)
	s.refuse(c, statusOf(e.Code), e)
}

// coded returns the coded error in err's chain. What has no code is ours: the
// client learns nothing of it, and the log all.
func (s *Server) coded(c *gin.Context, err error) *errs.Error {
	ctx, r := of(c)
	var e *errs.Error
	switch {
	case errors.As(err, &e) && e.Code != errs.Internal:
		return e
	case ctx.Err() != nil: // the client has left: nobody reads this
		return errs.New(errs.Unavailable, "the request was given up")
	case away(err):
		s.Log.WarnContext(ctx, "request failed: database is away", slog.String("correlation_id", r.correlation), slog.Any("err", err))
		return errs.New(errs.Unavailable, "the database is away").Try("repeat the request in a moment")
	}
	s.Log.ErrorContext(ctx, "request failed", slog.String("correlation_id", r.correlation), slog.String("path", c.FullPath()), slog.Any("err", err))
	return errs.New(errs.Internal, "the server failed")
}

// asCoded is the coded error in err's chain, or nil.
func asCoded(err error) *errs.Error {
	e, _ := errors.AsType[*errs.Error](err)
	return e
}

// away tells a database that is gone or starting from one that was asked wrongly:
// the same request may succeed in a moment.
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

// retryAfter is what a client waits before it asks a database again that is
// starting: a warm start takes well under a second.
const retryAfter = "1"

func (s *Server) refuse(c *gin.Context, status int, e *errs.Error) {
	_, r := of(c)
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
		Code: oapi.ErrorCode(e.Code), Message: e.Message, CorrelationId: r.correlation, Details: details,
		Type: reference.Path + "#" + string(e.Code), Title: http.StatusText(status), Status: status, Instance: c.Request.URL.Path,
	})
	if err != nil { // a detail that has no JSON form is a bug of the room that set it
		s.Log.ErrorContext(c.Request.Context(), "encoding a problem", slog.Any("err", err))
	}

	switch status {
	case http.StatusUnauthorized:
		c.Header("WWW-Authenticate", `Bearer realm="gpuaas"`)
	case http.StatusServiceUnavailable:
		c.Header("Retry-After", retryAfter)
	}
	contentType := "application/json"
	if strings.Contains(c.GetHeader("Accept"), "application/problem+json") {
		contentType = "application/problem+json"
	}
	c.Header("Cache-Control", "no-store")
	c.Data(status, contentType, body)
	c.Abort()
}

// badRequest answers what the generated server could not read. Our own check ran
// before it, so this is a form that the contract describes loosely.
func (s *Server) badRequest(c *gin.Context, err error) {
	var e *errs.Error
	if !errors.As(err, &e) {
		e = errs.New(errs.ValidationError, "%s", plain(err)).At(fieldOf(err))
	}
	s.fail(c, e)
}

func (s *Server) noRoute(c *gin.Context) {
	s.fail(c, errs.New(errs.NotFound, "the path does not exist").Try("the calls are listed at /api/docs"))
}

// noMethod answers a path that exists for other methods; gin has set Allow.
func (s *Server) noMethod(c *gin.Context) {
	s.fail(c, errs.New(errs.MethodNotAllowed, "the path does not accept %s", c.Request.Method).
		Try("use %s", c.Writer.Header().Get("Allow")))
}
