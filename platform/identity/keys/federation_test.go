package keys

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Threat: a credential admits the jobs of other users of the same forge.
func TestFederationNamesARepository(t *testing.T) {
	t.Parallel()
	const issuer = "https://token.actions.example"
	for subject, valid := range map[string]bool{
		"repo:acme/fleet:ref:refs/heads/main": true, "repo:acme/fleet:pull_request": true, "repo:acme/fleet:*": true,
		"project_path:acme/infra/fleet:ref_type:branch:ref:*": true, "project_path:acme/fleet:*": true, "any exact": false,
		"": false, "*": false, "repo:*": false, "repo:acme*": false, "repo:acme/*": false, "repo:acme/fleet*": false, "repo:acme:*": false,
		"repo::*": false, "::*": false, "repo:acme/fleet:**": false, "repo:*/fleet:ref": false, "repo:acme/fleet:\n*": false, strings.Repeat("x", 256): false,
	} {
		err := Federation{Issuer: issuer, Subject: subject}.check([]string{"https://gitlab.example", issuer})
		if (err == nil) != valid || err != nil && errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%q: %v", subject, err)
		}
	}
	for _, trusted := range [][]string{nil, {"https://gitlab.example"}} {
		if err := (Federation{Issuer: issuer, Subject: "repo:acme/fleet:*"}).check(trusted); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("trusting %v: %v", trusted, err)
		}
	}
}
