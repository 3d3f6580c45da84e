package arch

import (
	"go/ast"
	"slices"
	"testing"
)

// unscoped are the functions that read the rows of every tenant. A new entry is a decision: a
// request with a known caller has a scope of its own.
var unscoped = []string{
	"dev/up.enrolmentToken",         // of a development fleet, before anyone has signed in
	"dev/up.seedTenant",             // likewise
	"api/rest.recordPlatformAction", // an act on a job, or a support bundle
	"api/rest/middleware.confine",   // what an operator's role has allowed
	"api/rest/event.open",           // an operator who requests the events of all tenants
	"api/stream.join",               // one reader for all clients; each receives only the events of its tenant
	"platform/billing.Limits",       // declarations are the platform's; those of the caller's own tenant are read
	"platform/billing.SetLimits",    // and written, after it was made sure whose they are
	"platform/payment.Receive",      // the payment provider belongs to no tenant, and its report is stored unchanged
	"platform/identity.Scope",       // the same, in the terms of that package
	"platform/identity.unscoped",    // for those below
	"platform/identity/signin.unscoped",
	"platform/identity/identitytest.In", // what the middleware does, for tests

	// What finds out who calls and for whom, and begins or ends that.
	"platform/identity/signin.Authenticate", "platform/identity/signin.Unconfirmed",
	"platform/identity.findProject",
	"product/storage/accesskey.Find",          // of the key of a request, before its caller is known
	"product/storage/accesskey.Reseal",        // as platform/identity/reseal
	"product/storage/accesskey.ResealMounts",  // as platform/identity/reseal
	"platform/identity/delegation.Present",    // the caller who has permitted something earlier
	"platform/identity/keys.ProjectOfAccount", // of the account in the path, on the way to a decision
	"platform/identity/signin.SignInUser",
	"platform/identity/signin.SignInSession",
	"platform/identity/signin.PersonalLogin",
	"platform/identity/signin.FirstAdminLink",
	"platform/identity/signin.UseLink",
	"platform/identity/signin.RefreshSession",
	"platform/identity/signin.Logout",
	"platform/identity/signin.MintToken", "platform/identity/signin.MintTokenForJob",

	"platform/identity.ProjectRoles", // of the caller, before the request has a scope
	"platform/identity.UserHasEmail", // of a user who has pushed, before a plan exists

	"platform/payment.Receive", // the payment provider is not a signed-in user

	// Builds of the agent belong to no tenant, and so do the audit rows about them.
	"product/agentrelease.Publish",
	"product/agentrelease.Retry",

	// The invited user is in no tenant. The statements select by the address of the user.
	"platform/identity.OwnInvitations",
	"platform/identity.AcceptInvitation",
	"platform/identity.DeclineInvitation",
	"platform/identity/signin.UsualAddress", // before the sign-in
	"platform/identity/signin.RevokeEnded",  // of sessions of all users that have ended
	// A key ends with the SSH keys of service accounts that it led to, which the scope of a user does not show. The
	// account is read in the scope of the caller, and the statements name it or the caller.
	"platform/identity/keys.RevokeAPIKey",
	"platform/identity/keys.RevokeCredential",
	"platform/identity/keys.DeleteServiceAccount",
	"platform/identity/signin.SetPassword",
	// Stored secrets are sealed again for all tenants, and one that does not open belongs to none.
	"platform/identity/reseal.Reseal",
	"platform/notification/webhook.Reseal", // likewise
	"platform/secret.Record",

	// A link of an e-mail is the only credential of its holder.
	"platform/notification.Subscription", "platform/notification.Unsubscribe",

	// An administrator changes a user without a tenant.
	"platform/identity.PutTenantMember",
}

// TestINV61WhoSeesAllTenants finds every use of the scope of the platform.
func TestINV61WhoSeesAllTenants(t *testing.T) {
	t.Parallel()
	var found []string
	for _, f := range sources(t) {
		if f.test || under(f.pkg, "internal/pg") || under(f.pkg, "e2e") {
			continue
		}
		for _, decl := range f.syntax.Decls {
			name := "a variable"
			if fn, ok := decl.(*ast.FuncDecl); ok {
				name = fn.Name.Name
			}
			if seesAll(f.pkg, decl) {
				found = append(found, f.pkg+"."+name)
			}
		}
	}
	for _, where := range found {
		if !slices.Contains(unscoped, where) {
			t.Errorf("%s reads the rows of all tenants: decide that it may, or give it the scope of its caller", where)
		}
	}
	for _, where := range unscoped {
		if !slices.Contains(found, where) {
			t.Errorf("%s no longer reads the rows of all tenants", where)
		}
	}
}

// seesAll searches for pg.Platform, for the scope of a caller who is an operator, and in identity
// for the function that wraps the first.
func seesAll(pkg string, in ast.Node) (all bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			all = all || ok && x.Name == "pg" && n.Sel.Name == "Platform"
		case *ast.CallExpr:
			switch fn := n.Fun.(type) {
			case *ast.Ident:
				all = all || fn.Name == "unscoped" && under(pkg, "platform/identity")
			case *ast.SelectorExpr:
				x, _ := fn.X.(*ast.Ident)
				conversion := x != nil && (x.Name == "policies" || x.Name == "oapi")
				all = all || fn.Sel.Name == "Scope" && len(n.Args) == 1 && !isFalse(n.Args[0]) && !conversion && !under(pkg, "policies")
			}
		}
		return true
	})
	return all
}

func isFalse(e ast.Expr) bool {
	x, ok := e.(*ast.Ident)
	return ok && x.Name == "false"
}
