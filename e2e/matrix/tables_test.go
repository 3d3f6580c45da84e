package matrix_test

// changes are the tables that a permitted call may write besides its audit row.
var changes = map[string][]string{
	"createAllocation":  {"allocations", "allocation_transitions", "slot_claims", "slots", "desired_objects", "reconcile_due", "outbox_events"},
	"updateAllocation":  {"allocations", "allocation_transitions", "desired_objects", "reconcile_due"},
	"releaseAllocation": {"allocations", "allocation_transitions", "slots", "desired_objects", "reconcile_due", "outbox_events", "usage_records"},

	// A change of a user's SSH keys changes them on the nodes, by a job.
	"createSshKey": {"ssh_keys", "river_job"},
	"deleteSshKey": {"ssh_keys", "river_job"},
	"createApiKey": {"api_keys"},
	"deleteApiKey": {"api_keys", "service_account_credentials", "ssh_keys", "river_job"},
	"endSession":   {"sessions"},
	"updateMe":     {"users"},
	"setPassword":  {"user_passwords", "sessions", "api_keys", "service_account_credentials"},

	"acceptInvitation":  {"invitations", "tenant_memberships", "river_job"},
	"declineInvitation": {"invitations"},
	"logout":            {"sessions", "revoked_tokens"},

	"updateTenant":       {"tenants"},
	"putTenantMember":    {"tenant_memberships", "river_job"},
	"deleteTenantMember": {"tenant_memberships", "project_memberships", "api_keys", "sessions", "river_job", "outbox_events"},
	"createInvitation":   {"invitations"},
	"deleteInvitation":   {"invitations"},

	"createProject":       {"projects", "project_memberships"},
	"updateProject":       {"projects"},
	"deleteProject":       {"projects", "service_accounts"},
	"putProjectMember":    {"project_memberships"},
	"deleteProjectMember": {"project_memberships", "outbox_events"},

	"createServiceAccount": {"service_accounts"},
	"updateServiceAccount": {"service_accounts", "river_job"},
	"deleteServiceAccount": {"service_accounts", "service_account_credentials", "river_job"},
	"createCredential":     {"service_account_credentials"},
	"deleteCredential":     {"service_account_credentials"},

	"createUser":              {"users", "tenant_memberships"},
	"updateUser":              {"users", "sessions", "api_keys", "river_job", "outbox_events"},
	"deleteUser":              {"users", "sessions", "api_keys", "ssh_keys", "user_passwords", "sign_in_links", "invitations", "project_memberships", "tenant_memberships", "service_account_credentials", "river_job"},
	"deleteTenant":            {"tenants", "webhook_endpoints", "projects", "service_accounts", "service_account_credentials", "invitations", "project_memberships", "tenant_memberships", "users", "sessions", "api_keys", "ssh_keys", "user_passwords", "sign_in_links"},
	"endAnySession":           {"sessions"},
	"createTenant":            {"tenants", "projects"},
	"placeTenantMember":       {"tenant_memberships", "river_job"},
	"createEnrolmentToken":    {"enrolment_tokens"},
	"createTerminalToken":     {"terminal_tokens"},
	"endTerminalSession":      {"terminal_sessions"},
	"getTerminalRecording":    {},
	"getNodeLogs":             {},
	"endAdminTerminalSession": {"terminal_sessions"},
	"createSshCertificate":    {"ssh_certificates"}, // its serial, so that it can be revoked

	// Each operator hold of a node is a separate row, which the loop reads.
	"createNode":         {"desired_objects", "reconcile_due", "outbox_events"},
	"retireNode":         {"desired_objects", "reconcile_due", "outbox_events"},
	"cordonNode":         {"holds", "nodes", "slots", "reconcile_due"},
	"uncordonNode":       {"holds", "nodes", "slots", "reconcile_due"},
	"drainNode":          {"holds", "nodes", "slots", "reconcile_due"},
	"revokeNode":         {"certificates", "enrolment_tokens"},
	"overrideNodeHealth": {"health_reports", "nodes", "gpus", "slots", "holds", "outbox_events", "reconcile_due"},
	"acceptNodeHardware": {"nodes", "health_reports", "holds", "slots", "outbox_events", "reconcile_due"},
	"quarantineSlot":     {"holds", "nodes", "slots", "reconcile_due"},
	"clearSlot":          {"holds", "nodes", "slots", "reconcile_due", "slot_inspections", "slot_claims", "river_job"},
	"clearBreaker":       {"breaker_trips"},
	"resetNodeGpu":       {"nodes", "river_job"},

	"retryDeadLetters":                 {"dead_letters"},
	"discardDeadLetters":               {"dead_letters", "inbox"},
	"replayConsumer":                   {"event_replays"},
	"markNotificationsRead":            {"notifications"},
	"putNotificationPreferences":       {"notification_preferences"},
	"putTenantNotificationPreferences": {"notification_preferences"},
	"testNotification":                 {"notifications", "river_job"},
	"liftSuppression":                  {"suppressed_addresses"},
	"createWebhook":                    {"webhook_endpoints"},
	"updateWebhook":                    {"webhook_endpoints", "webhook_deliveries"},
	"deleteWebhook":                    {"webhook_endpoints"},
	"testWebhook":                      {}, // it sends a message
	"rotateWebhookSecret":              {"webhook_endpoints"},
	"resendWebhookDelivery":            {"webhook_deliveries", "river_job"},
	"replayWebhook":                    {"webhook_deliveries", "river_job"},

	"announceNodeRetirement": {"nodes", "outbox_events"},
	"reportAllocationFault":  {"fault_reports"},
	"decideFaultReport":      {"fault_reports", "health_reports", "nodes", "gpus", "slots", "holds", "outbox_events", "reconcile_due", "river_job"},

	// A forced release leaves release_failed, and so opens nothing again.
	"forceReleaseAllocation": {"allocations", "allocation_transitions", "slots", "desired_objects", "reconcile_due", "outbox_events", "usage_records"},
	"probeNode":              {"river_job"},

	// Actions on declarations are written as events; the loop executes them.
	"putDesired":       {"desired_objects", "reconcile_due", "outbox_events"},
	"deleteDesired":    {"desired_objects", "reconcile_due", "outbox_events"},
	"adoptDesired":     {"desired_objects", "outbox_events"},
	"suspendDesired":   {"desired_objects", "reconcile_due", "outbox_events"},
	"resumeDesired":    {"desired_objects", "reconcile_due", "outbox_events"},
	"reconcileDesired": {"desired_objects", "reconcile_due", "outbox_events"},
	"createPlan":       {"plans"},
	"approvePlan":      {"plans", "plan_approvals", "outbox_events"},
	"rejectPlan":       {"plans", "outbox_events"},
	"applyPlan":        {"plans", "desired_objects", "reconcile_due", "outbox_events"},
	"syncGitSource":    {"git_sources"},
	"suspendGitSource": {"git_sources"},
	"resumeGitSource":  {"git_sources"},
	"ignoreDrift":      {"drift", "reconcile_due"},
	"putPolicy":        {"desired_objects", "reconcile_due", "outbox_events"},

	// Changes that the loop applies, and that a worker checks afterwards.
	"putBillingLimits":        {"desired_objects", "reconcile_due"},
	"createCheckoutSession":   {"payment_sessions", "payment_customers"},
	"createPortalSession":     {"payment_customers"},
	"createAutoTopup":         {"payment_mandates", "payment_customers", "outbox_events"},
	"confirmAutoTopup":        {"payment_mandates", "outbox_events"},
	"deleteAutoTopup":         {"payment_mandates", "outbox_events"},
	"reconcilePaymentSession": {"payment_sessions"},
	"createRefund":            {"refund_requests", "stripe_payments", "ledger_transfers", "ledger_entries", "outbox_events", "river_job"},
	"adjustBalance":           {"ledger_transfers", "ledger_entries", "outbox_events", "river_job"},
}
