package keys

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

const maxTTL = 10 * 365 * 24 * time.Hour

// until returns the end of a lifetime that starts now. It is nil without a TTL.
func until(now time.Time, ttl time.Duration) (*time.Time, error) {
	switch {
	case ttl == 0:
		return nil, nil //nolint:nilnil // without an end
	case ttl < time.Second || ttl > maxTTL:
		return nil, errs.Invalid("ttl_seconds", "must be between 1 and %d", int64(maxTTL/time.Second))
	}
	end := now.Add(ttl)
	return &end, nil
}

// checkScopes returns the names sorted. It rejects scopes beyond those of the caller's own token,
// so a stolen token cannot create a stronger one.
func checkScopes(c identity.Caller, names []string) ([]string, error) {
	asked, err := policies.ParseScopes(names)
	if err != nil {
		return nil, errs.Invalid("scopes", "%s", err).Try("use some of %s", strings.Join(policies.ScopeNames(), ", "))
	}
	if c.Limited && !asked.Within(c.Scopes) {
		return nil, tooMuch()
	}
	if slices.Contains(names, policies.PlansPropose) && c.Role != "admin" && c.Role != "operator" {
		return nil, errs.New(errs.Forbidden, "only an operator can grant the scope %s", policies.PlansPropose).At("scopes")
	}
	return asked.Names(), nil
}

func tooMuch() error {
	return errs.New(errs.Forbidden, "your token may not give more than it has").At("scopes").
		Try("request scopes of your token, or sign in without it")
}
