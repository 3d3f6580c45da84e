package identity

import (
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/policies"
)

// The roles that there are, as the schema lists them.
var (
	tenantRoles   = []string{"owner", "member", "viewer", "billing"}
	projectRoles  = []string{"admin", "member", "viewer"}
	platformRoles = []string{"user", "admin", "operator", "billing_operator"}
)

const (
	maxName        = 64
	maxDescription = 1000
	maxEmail       = 254 // RFC 5321: a path of 256 with its brackets
	maxTTL         = 10 * 365 * 24 * time.Hour
)

var (
	label    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	currency = regexp.MustCompile(`^[A-Z]{3}$`)
)

// checkLabel accepts RFC 1123 labels, because names are parts of URLs and URNs. It rejects names that
// have the form of an id: where a name or an id can be given, the name would mean another object.
func checkLabel(name string) error {
	if _, err := uuid.Parse(name); err == nil {
		return errs.Invalid("name", "must not be a UUID").Try("choose a name that cannot be mistaken for the id of another object")
	}
	if !label.MatchString(name) {
		return errs.Invalid("name", "must be 1 to 63 of a-z, 0-9 and -, and begin and end with a letter or digit")
	}
	return nil
}

// validText returns text that people read, trimmed.
func validText(field, text string, least, most int) (string, error) {
	text = strings.TrimSpace(text)
	if len(text) < least || len(text) > most || strings.ContainsFunc(text, isControl) {
		return "", errs.Invalid(field, "must be %d to %d printable characters", least, most)
	}
	return text, nil
}

// address returns an e-mail address in the form in which it is compared.
func address(field, text string) (string, error) {
	a, err := mail.ParseAddress(text)
	if err != nil || a.Address != text || len(text) > maxEmail || strings.ContainsFunc(text, isControl) {
		return "", errs.Invalid(field, "must be an e-mail address, without a name")
	}
	return strings.ToLower(text), nil
}

func checkRole(field, role string, roles []string) error {
	if !slices.Contains(roles, role) {
		return errs.Invalid(field, "must be one of %s", strings.Join(roles, ", "))
	}
	return nil
}

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

// checkScopes returns the names in one order. It rejects scopes beyond those of the caller's own token,
// so a stolen token cannot create a stronger one.
func checkScopes(c Caller, names []string) ([]string, error) {
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

func (s *Service) now() time.Time { return s.Clock.Now().Truncate(time.Microsecond) } // in the precision of the database
