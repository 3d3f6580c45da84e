package middleware

import (
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ChargeStorage counts a request of another listener for the files of a tenant. It returns the time to wait, or zero.
func (s *Chain) ChargeStorage(c identity.Caller) time.Duration {
	return s.charge(bucketKey{class: request.ClassStorage, id: c.Tenant.UUID}, c)
}

// ChargeAnonymous counts a request of another listener whose sender is not known. It returns the time to wait, or zero.
func (s *Chain) ChargeAnonymous(r *http.Request) time.Duration {
	return s.charge(bucketKey{class: request.ClassAnonymous, id: addressOf(r)}, identity.Caller{})
}

func (s *Chain) charge(key bucketKey, c identity.Caller) time.Duration {
	t := s.limiter.admit(key, c)
	if t.wait > 0 {
		s.limiter.count(key.class, limited)
	} else {
		s.limiter.countAllowed(key.class)
	}
	return t.wait
}
