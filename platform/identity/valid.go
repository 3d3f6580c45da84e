package identity

import (
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// The roles that there are, as the schema lists them.
var (
	tenantRoles  = []string{"owner", "member", "viewer", "billing"}
	projectRoles = []string{"admin", "member", "viewer"}
)

// The limits of texts that users read, in bytes.
const (
	MaxName        = 64
	MaxDescription = 1000
	maxEmail       = 254 // RFC 5321: a path of 256 with its brackets
)

var (
	label    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	currency = regexp.MustCompile(`^[A-Z]{3}$`)
)

// CheckLabel accepts RFC 1123 labels, because names are parts of URLs and URNs. It rejects names that
// have the form of an id: where a name or an id can be given, the name would mean another object.
func CheckLabel(name string) error {
	if _, err := uuid.Parse(name); err == nil {
		return errs.Invalid("name", "must not be a UUID").Try("choose a name that cannot be mistaken for the id of another object")
	}
	if !label.MatchString(name) {
		return errs.Invalid("name", "must be 1 to 63 of a-z, 0-9 and -, and begin and end with a letter or digit")
	}
	return nil
}

// Nothing else may have the names of deleted tenants and users: another one could then not be deleted.
const (
	deletedPrefix = "deleted-"
	deletedDomain = "@deleted.invalid"
)

func checkTenantName(name string) error {
	if strings.HasPrefix(name, deletedPrefix) {
		return errs.Invalid("name", "must not begin with %s, which is for deleted tenants", deletedPrefix).Try("choose another name")
	}
	return CheckLabel(name)
}

// CheckText returns text that users read, trimmed.
func CheckText(field, text string, least, most int) (string, error) {
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
	text = strings.ToLower(text)
	if strings.HasSuffix(text, deletedDomain) {
		return "", errs.Invalid(field, "must not end with %s, which is for deleted users", deletedDomain)
	}
	return text, nil
}

func checkRole(field, role string, roles []string) error {
	if !slices.Contains(roles, role) {
		return errs.Invalid(field, "must be one of %s", strings.Join(roles, ", "))
	}
	return nil
}

// Now returns the current time in the precision of the database.
func (s *Service) Now() time.Time { return s.Clock.Now().Truncate(time.Microsecond) }

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
