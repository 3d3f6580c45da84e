package middleware

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
)

const (
	// A stream ends within two seconds after its caller has lost the right to it (AUTH-12). The cached token may be one second
	// old. The next check follows after readEvery, and fails after readWithin at the latest.
	readEvery, readWithin = 500 * time.Millisecond, 500 * time.Millisecond
)

// WhileAllowed returns when ctx ends, or the error of allowed. A database that is away ends streams, too.
func WhileAllowed(ctx context.Context, allowed func(context.Context) error) error {
	every := time.NewTicker(readEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
		if err := within(ctx, allowed); err != nil {
			return err
		}
	}
}

func within(ctx context.Context, allowed func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return allowed(ctx)
}

// Again authenticates the caller of an open stream again, and returns an error if the caller may not open it now.
func (s *Chain) Again(ctx context.Context, c *gin.Context, opened *request.Call, token string) (*request.Call, error) {
	caller, err := s.SignIn.Authenticate(ctx, token)
	if err != nil {
		return nil, err
	}
	r := &request.Call{Context: ctx, Op: opened.Op, Caller: caller}
	again := c.Copy()                                // with the deadline of this check
	again.Request = c.Request.WithContext(r)         //nolint:contextcheck // r carries ctx
	if err := s.EnterProject(again, r); err != nil { //nolint:contextcheck // again carries it
		return nil, err
	}
	d := s.Decide(r.Op, r.Caller)
	if !d.Allowed {
		return nil, r.Op.Denied(r.Caller, d)
	}
	r.Rule, r.Platform = d.Rule, d.Platform
	return r, nil
}
