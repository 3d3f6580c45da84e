package matrix_test

// changes are the tables that a permitted call may write beside its audit row.
var changes = map[string][]string{
	"createAllocation":  {"allocations", "allocation_transitions", "slot_claims", "slots", "desired_objects", "reconcile_due", "outbox_events"},
	"releaseAllocation": {"allocations", "allocation_transitions", "slots", "desired_objects", "reconcile_due", "outbox_events", "usage_records"},

	// Who changes his keys for login changes them on the machines, by a job.
	"createSshKey": {"ssh_keys", "river_job"},
	"deleteSshKey": {"ssh_keys", "river_job"},
	"createApiKey": {"api_keys"},
	"deleteApiKey": {"api_keys"},
	"endSession":   {"sessions"},
	"updateMe":     {"users"},
	"setPassword":  {"user_passwords", "sessions"},
	"logout":       {"sessions", "revoked_tokens"},

	"updateTenant":       {"tenants"},
	"putTenantMember":    {"tenant_memberships"},
	"deleteTenantMember": {"tenant_memberships", "project_memberships", "api_keys", "sessions"},
	"createInvitation":   {"invitations"},
	"deleteInvitation":   {"invitations"},

	"createProject":       {"projects", "project_memberships"},
	"updateProject":       {"projects"},
	"deleteProject":       {"projects", "service_accounts"},
	"putProjectMember":    {"project_memberships"},
	"deleteProjectMember": {"project_memberships"},

	"createServiceAccount": {"service_accounts"},
	"updateServiceAccount": {"service_accounts"},
	"deleteServiceAccount": {"service_accounts", "service_account_credentials"},
	"createCredential":     {"service_account_credentials"},
	"deleteCredential":     {"service_account_credentials"},

	"createUser":           {"users", "tenant_memberships"},
	"updateUser":           {"users", "sessions", "api_keys"},
	"endAnySession":        {"sessions"},
	"createTenant":         {"tenants", "projects"},
	"placeTenantMember":    {"tenant_memberships"},
	"createEnrolmentToken": {"enrolment_tokens"},

	// What people do to declarations; the loop carries it out.
	"putDesired":       {"desired_objects", "reconcile_due"},
	"deleteDesired":    {"desired_objects", "reconcile_due"},
	"adoptDesired":     {"desired_objects"},
	"suspendDesired":   {"desired_objects", "reconcile_due"},
	"resumeDesired":    {"desired_objects", "reconcile_due"},
	"reconcileDesired": {"desired_objects", "reconcile_due"},
	"createPlan":       {"plans"},
	"approvePlan":      {"plans"},
	"rejectPlan":       {"plans"},
	"applyPlan":        {"plans", "desired_objects", "reconcile_due"},
	"syncGitSource":    {"git_sources"},
	"suspendGitSource": {"git_sources"},
	"resumeGitSource":  {"git_sources"},
	"ignoreDrift":      {"drift", "reconcile_due"},
	"putPolicy":        {"desired_objects", "reconcile_due"},

	// What the loop carries out, and what a worker looks at afterwards.
	"putBillingLimits":        {"desired_objects", "reconcile_due"},
	"createCheckoutSession":   {"payment_sessions", "payment_customers"},
	"createPortalSession":     {"payment_customers"},
	"reconcilePaymentSession": {"payment_sessions"},
	"createRefund":            {"refund_requests", "stripe_payments", "ledger_transfers", "ledger_entries", "outbox_events", "river_job"},
	"adjustBalance":           {"ledger_transfers", "ledger_entries", "outbox_events", "river_job"},
}
