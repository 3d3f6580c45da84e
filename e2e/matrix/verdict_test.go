package matrix_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/policies"
)

// whose names the owner of the ids of a cell.
type whose string

const (
	own     whose = "own"
	foreign whose = "foreign"
	random  whose = "random"
	absent  whose = "no" // of what may be left out
)

// verdict is the expected result of a cell by the policies and the borders of tenants.
type verdict struct {
	statuses []int
	codes    []string // empty: of a success
	changes  bool
}

func (v verdict) allows() bool { return len(v.codes) == 0 }

// openTo has the checks of the operations that are open to everyone, when
// what is sent opens nothing.
var openTo = map[string]verdict{
	"getSignInOptions":        {statuses: []int{200}},
	"getTokenKeys":            {statuses: []int{200}},
	"getLivez":                {statuses: []int{200}},
	"getReadyz":               {statuses: []int{200}},
	"getHealthz":              {statuses: []int{200, 503}}, // the bus and the fleet are others' business
	"authorizeOidc":           {statuses: []int{302}},
	"exchangeOidc":            {statuses: []int{400, 404}, codes: []string{"not_found", "validation_error"}},
	"loginPersonal":           {statuses: []int{401}, codes: []string{"login_failed"}},
	"refreshToken":            {statuses: []int{401, 404}, codes: []string{"token_missing", "token_invalid", "not_found"}},
	"mintServiceAccountToken": {statuses: []int{400, 404}, codes: []string{"validation_error", "not_found"}}, // no issuer of jobs is listed
	"receivePaymentEvent":     {statuses: []int{400}, codes: []string{"signature_invalid"}},
	"downloadSignedStorage":   {statuses: []int{403}, codes: []string{"forbidden"}},
	"uploadSignedStorage":     {statuses: []int{403}, codes: []string{"forbidden"}},
	"receiveGitHook":          {statuses: []int{400}, codes: []string{"signature_invalid"}}, // of no source, too
}

// aboutOwnTenant are the calls about the caller's own tenant that no id names.
func aboutOwnTenant(o openapi.Operation) bool {
	return !ofOperators(o) && !slices.ContainsFunc([]string{"user", "service_account"}, func(role string) bool {
		return policies.Allows(role, o.OperationID)
	})
}

// ofOperators returns whether only platform roles may call an operation, in any tenant.
func ofOperators(o openapi.Operation) bool {
	return strings.HasPrefix(o.Path, "/api/v1/admin/") || strings.HasPrefix(o.Path, "/api/v3/platform/") && !policies.Allows("user", o.OperationID)
}

// expect is the verdict on a cell, from roles.cue and from the owner of the object. It does not use the
// product's authorisation.
func expect(t testing.TB, o openapi.Operation, a *actor, at whose, s slot) verdict {
	t.Helper()
	if public(o) != policies.Allows("anonymous", o.OperationID) {
		t.Fatalf("%s: the contract and the roles differ on whether it is open to everyone", o.OperationID)
	}
	switch {
	case public(o):
		v, known := openTo[o.OperationID]
		if !known {
			t.Fatalf("%s is open to everyone: add the reason to openTo", o.OperationID)
		}
		if a.cookie && a.rejection == "" && o.OperationID == "refreshToken" {
			v = verdict{statuses: []int{200}} // of their own session
		}
		return v
	case o.OperationID == "createTerminalToken" && strings.HasPrefix(a.token, "ey") && !a.program && a.rejection == "":
		// A terminal ends with the sign-in, and the server does not see the end of a provider's token.
		return verdict{statuses: []int{http.StatusForbidden, http.StatusNotFound}, codes: []string{"forbidden", "not_found"}}
	case a.rejection != "":
		return verdict{statuses: []int{401}, codes: []string{a.rejection}}
	}
	by := grants(o, a)
	missing := verdict{statuses: []int{404}, codes: []string{"not_found"}}
	if listed, _ := o.Extensions["x-codes"].([]any); s.kind == "UserID" && slices.Contains(listed, any("user_not_found")) {
		missing.codes = []string{"user_not_found"}
	}
	if s.kind == "StorageObjectID" || s.kind == "StorageUploadID" {
		missing.codes = []string{"storage_object_not_found"}
	}
	audited := o.OperationID == "getTerminalRecording" || o.OperationID == "getNodeLogs" || o.OperationID == "getSupportBundle" // each read
	done := verdict{statuses: successes(o), changes: writes(o) || audited}
	if o.OperationID == "probeNode" { // the node has no agent here; the probe waits in its mailbox
		done.statuses, done.codes = []int{504}, []string{"agent_timeout"}
	}
	if o.OperationID == "getAllocationLogs" || o.OperationID == "getNodeLogs" { // no terminal server runs here
		done.statuses, done.codes = []int{503}, []string{"unavailable"}
	}
	if o.OperationID == "acceptInvitation" || o.OperationID == "declineInvitation" { // of the matrix, all have expired
		done = verdict{statuses: []int{409}, codes: []string{"conflict"}}
	}
	if at == absent && !a.program {
		return expectNoProject(o, a, by, done)
	}
	if at == absent { // it is in its project, named or not
		at = own
	}
	switch {
	case len(by) == 0 && at == own && a.side != nil:
		return verdict{statuses: []int{403}, codes: []string{"forbidden"}}
	case len(by) == 0: // either check may be first; both responses hide the id
		v := verdict{statuses: []int{403, 404}, codes: []string{"forbidden", "not_found"}}
		if a.side == nil {
			v.statuses, v.codes = append(v.statuses, 400), append(v.codes, "project_required")
		}
		return v
	case at == random, at == foreign && !reaches(o, a, s):
		return missing
	case (o.OperationID == "getMe" || isStream(o)) && a.side != nil && !a.program && !slices.ContainsFunc(a.roles, isInProject):
		// They name the project, in which the caller has no role.
		return verdict{statuses: []int{403}, codes: []string{"forbidden"}}
	case a.side == nil && isStream(o) && !a.hasRole("admin"): // they are a project's
	case a.side != nil || at == foreign || !aboutOwnTenant(o) || reaches(o, a, s):
		return done
	}
	// Of no tenant, and about none.
	return verdict{statuses: []int{101, 200, 400, 403, 404}, codes: []string{"", "not_found", "forbidden", "project_required"}}
}

// isStream reports whether an operation is the stream of events, over either transport.
func isStream(o openapi.Operation) bool {
	return o.OperationID == "listEvents" || o.OperationID == "followEvents"
}

// expectNoProject is the verdict for a request without a project. Each tenant has two projects, so only a
// role in all of them permits it.
func expectNoProject(o openapi.Operation, a *actor, by []string, done verdict) verdict {
	wide := slices.ContainsFunc(by, func(role string) bool { return !strings.HasPrefix(role, "project.") })
	if isStream(o) { // everybody may, of what they see
		wide = slices.ContainsFunc(a.roles, isInProject) || a.hasRole("tenant.billing") && !a.limited
	}
	switch {
	case a.side == nil && o.OperationID == "endTerminalSession" && len(by) > 0: // of the caller
		return done
	case a.side == nil:
		return verdict{statuses: []int{101, 200, 400, 403, 404}, codes: []string{"", "not_found", "forbidden", "project_required"}}
	case len(by) == 0:
		return verdict{statuses: []int{400, 403}, codes: []string{"project_required", "forbidden"}}
	case isStream(o) && !wide:
		return verdict{statuses: []int{403}, codes: []string{"forbidden"}}
	case !wide, o.Extensions["x-project"] == "required":
		return verdict{statuses: []int{400}, codes: []string{"project_required"}}
	}
	return done
}

// reaches reports whether the actor may name an id of any tenant: operators for resources of the platform,
// and administrators for projects of tenants. A user's own resources stay private.
func reaches(o openapi.Operation, a *actor, s slot) bool {
	if ofOperators(o) {
		return true
	}
	if slices.Contains([]string{"listEvidence", "getEvidence", "createEvidence"}, o.OperationID) { // of all tenants
		return a.hasRole("admin") || a.hasRole("operator") || a.hasRole("billing_operator")
	}
	return a.hasRole("admin") && !personal[s.kind] && (named(o, "/ProjectHeader") || o.Extensions["x-project"] != nil)
}

// isInProject: owners administer every project of their tenant, and viewers see it.
func isInProject(role string) bool {
	return strings.HasPrefix(role, "project.") || role == "tenant.owner" || role == "tenant.viewer"
}

func named(o openapi.Operation, suffix string) bool {
	return slices.ContainsFunc(o.Parameters, func(p *openapi3.ParameterRef) bool { return strings.HasSuffix(p.Ref, suffix) })
}

func successes(o openapi.Operation) (all []int) {
	for _, status := range []int{http.StatusSwitchingProtocols, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent, http.StatusFound} {
		if o.Responses.Status(status) != nil {
			all = append(all, status)
		}
	}
	return all
}

// grants are the roles and scopes by which an actor may call an operation.
func grants(o openapi.Operation, a *actor) (by []string) {
	admin := ofOperators(o)
	if a.program {
		for _, role := range append([]string{"service_account"}, a.scopes...) {
			if policies.Allows(role, o.OperationID) && !admin {
				by = append(by, role)
			}
		}
		return by
	}
	for _, role := range a.roles {
		if allows(role, o.OperationID) && (!admin || slices.Contains([]string{"admin", "operator", "billing_operator", declaredRole}, role)) {
			by = append(by, role)
		}
	}
	if !a.limited || len(by) == 0 || policies.Allows("service_account", o.OperationID) {
		return by
	}
	if slices.ContainsFunc(a.scopes, func(scope string) bool { return policies.Allows(scope, o.OperationID) && !admin }) {
		return by
	}
	return nil
}
