package keys

import (
	"slices"
	"strings"
	"unicode"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Federation names the jobs of a forge that use a credential without a secret.
type Federation struct {
	Issuer string // of the tokens of jobs
	// Subject is the subject of the tokens: the repository and the ref. An asterisk at the end is a
	// wildcard for any ref of the repository.
	Subject string
}

// maxSubject is the limit of OpenID Connect Core for a subject.
const maxSubject = 255

// check validates a federation. The issuer is one that the installation trusts. A subject with an asterisk
// names a repository: the issuer signs tokens for the jobs of all its users.
func (f Federation) check(trusted []string) error {
	prefix, wild := strings.CutSuffix(f.Subject, "*")
	switch {
	case !slices.Contains(trusted, f.Issuer):
		e := errs.Invalid("federation.issuer", "%q is no issuer of jobs of this installation", f.Issuer)
		if len(trusted) == 0 {
			return e.Try("an operator lists issuers in signIn.jobIssuers of the Environment")
		}
		return e.Try("one of %s", strings.Join(trusted, ", "))
	case f.Subject == "" || len(f.Subject) > maxSubject || strings.ContainsFunc(f.Subject, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return errs.Invalid("federation.subject", "must have 1 to %d characters without spaces", maxSubject)
	case strings.Contains(prefix, "*"), wild && !namesRepository(prefix):
		return errs.Invalid("federation.subject", "an asterisk is allowed only at the end, after the repository").
			Try("like repo:acme/fleet:* or project_path:acme/fleet:*")
	}
	return nil
}

// namesRepository reports whether a prefix ends after a complete repository, as in "repo:acme/fleet:".
func namesRepository(prefix string) bool {
	parts := strings.Split(prefix, ":")
	return len(parts) >= 3 && strings.Contains(parts[1], "/") && parts[len(parts)-1] == "" && !slices.Contains(parts[:len(parts)-1], "")
}
