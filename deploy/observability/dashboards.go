package observability

import "strings"

// Dashboard is a page of Grafana.
type Dashboard struct {
	Name   string // its uid is gpuaas-NAME, its file NAME.json
	Title  string
	Portal string // the screen of the portal with the same objects
	Labels []Label
	Panels []Panel
}

// Label is a variable: a label whose values the reader chooses.
type Label struct{ Name, Metric string }

// Panel shows queries. Stat shows the last values as numbers.
type Panel struct {
	Title   string
	Unit    string // of Grafana
	Stat    bool
	Runbook string // what to do if its values are bad
	Queries []Query
}

// Query is a PromQL expression with the name of its series.
type Query struct{ Expr, Legend string }

func graph(title, unit, runbook string, queries ...Query) Panel {
	return Panel{Title: title, Unit: unit, Runbook: runbook, Queries: queries}
}

func stat(title, unit, runbook string, queries ...Query) Panel {
	return Panel{Title: title, Unit: unit, Runbook: runbook, Stat: true, Queries: queries}
}

// quantiles are the median and two tails of a histogram.
func quantiles(histogram, matchers string) (all []Query) {
	for _, q := range []string{"0.5", "0.95", "0.99"} {
		all = append(all, Query{"histogram_quantile(" + q + ", sum by (le) (rate(" + histogram + "_bucket{" + matchers + "}[$__rate_interval])))", "p" + strings.TrimPrefix(q, "0.")})
	}
	return all
}

// perSecond is the rate of a counter by a label.
func perSecond(metric, by string) Query {
	return Query{"sum by (" + by + ") (rate(" + metric + "[$__rate_interval]))", "{{" + by + "}}"}
}

// Dashboards lists the dashboards. No label of a metric names a tenant, so that the view of tenants shows what all of them
// experience.
func Dashboards(o Objectives) []Dashboard {
	return append([]Dashboard{overview(o)}, dashboards...)
}

func overview(o Objectives) Dashboard {
	d := Dashboard{Name: "overview", Title: "Overview and objectives", Portal: "/ops"}
	for _, one := range o.Objectives {
		d.Panels = append(d.Panels, stat(one.Title, "percentunit", "error-budget-burn", Query{budgetLeft + `{slo="` + one.Name + `"}`, "budget left"}))
	}
	var burns []Query
	for _, w := range o.windows() {
		burns = append(burns, Query{errorsOver + string(w) + " / on (slo) " + budget, "{{slo}} " + string(w)})
	}
	return Dashboard{d.Name, d.Title, d.Portal, d.Labels, append(
		d.Panels,
		graph("Burn rate of the error budgets", "none", "error-budget-burn", burns...),
		graph("Firing alerts", "none", "README", Query{`count by (alertname, severity) (ALERTS{alertstate="firing"})`, "{{alertname}} {{severity}}"}),
		graph("Requests by status", "reqps", "error-budget-burn", perSecond("gpuaas_http_request_duration_seconds_count", "status")),
		graph("Duration of requests", "s", "error-budget-burn", quantiles("gpuaas_http_request_duration_seconds", "")...),
		graph("Errors by code", "reqps", "error-budget-burn", perSecond("gpuaas_http_errors_total", "code")),
		graph("Decisions of the rate limiter", "reqps", "limiter-down", perSecond("gpuaas_ratelimit_decisions_total", "result")),
		graph("Denied requests", "reqps", "README", Query{`sum by (operation) (rate(gpuaas_authz_decisions_total{effect="deny"}[$__rate_interval]))`, "{{operation}}"}),
		graph("Versions", "none", "README", Query{"count by (version) (gpuaas_build_info)", "{{version}}"}),
		graph("Memory of the servers", "bytes", "README", Query{"process_resident_memory_bytes", "{{instance}}"}),
		graph("Goroutines", "none", "README", Query{"go_goroutines", "{{instance}}"}),
	)}
}

var dashboards = []Dashboard{
	{Name: "reconciler", Title: "Control loop", Portal: "/drift", Labels: []Label{{"kind", "gpuaas_due_objects"}}, Panels: []Panel{
		graph("Due objects", "none", "reconcile-stalled", Query{`sum by (kind) (gpuaas_due_objects{kind=~"$kind"})`, "{{kind}}"}),
		graph("Age of the oldest due object", "s", "reconcile-stalled", Query{`max by (kind) (gpuaas_due_oldest_age_seconds{kind=~"$kind"})`, "{{kind}}"}),
		graph("Passes by result", "ops", "reconcile-stalled", perSecond("gpuaas_reconcile_duration_seconds_count", "result")),
		graph("Duration of passes", "s", "reconcile-stalled", quantiles("gpuaas_reconcile_duration_seconds", `kind=~"$kind"`)...),
		graph("Open drift", "none", "drift-unresolved", Query{`max by (kind) (gpuaas_drift_open{kind=~"$kind"})`, "{{kind}}"}),
		graph("Drift past its deadline", "none", "drift-unresolved", Query{`max by (kind) (gpuaas_state_overdue{kind=~"$kind"})`, "{{kind}}"}),
		graph("Detected and healed drift", "ops", "drift-unresolved", Query{"sum(rate(gpuaas_drift_detected_total[$__rate_interval]))", "detected"}, Query{"sum(rate(gpuaas_drift_healed_total[$__rate_interval]))", "healed"}),
		stat("Stopped by the breaker", "none", "mass-action-breaker", Query{"max(gpuaas_mass_action_stopped)", ""}),
	}},
	{Name: "jobs", Title: "Jobs and node tasks", Portal: "/ops", Labels: []Label{{"kind", "gpuaas_jobs"}}, Panels: []Panel{
		graph("Jobs by state", "none", "queue-latency", Query{`max by (kind, state) (gpuaas_jobs{kind=~"$kind"})`, "{{kind}} {{state}}"}),
		graph("Age of the oldest waiting job", "s", "queue-latency", Query{`max by (kind) (gpuaas_jobs_oldest_age_seconds{kind=~"$kind"})`, "{{kind}}"}),
		graph("Discarded jobs", "none", "jobs-discarded", Query{`max by (kind) (gpuaas_jobs{state="discarded",kind=~"$kind"})`, "{{kind}}"}),
		graph("Attempts by result", "ops", "jobs-discarded", perSecond("gpuaas_job_duration_seconds_count", "result")),
		graph("Duration of attempts", "s", "queue-latency", quantiles("gpuaas_job_duration_seconds", `kind=~"$kind"`)...),
		graph("Node tasks without a result", "none", "node-task-timeouts", Query{"max by (type) (gpuaas_node_tasks_queued)", "{{type}}"}),
		graph("Time to the delivery of node tasks", "s", "node-task-timeouts", quantiles("gpuaas_node_task_dispatch_seconds", "")...),
		graph("Time to the result of node tasks", "s", "node-task-timeouts", quantiles("gpuaas_node_task_duration_seconds", "")...),
		graph("Failed node tasks", "ops", "node-task-timeouts", Query{"sum by (type, reason) (rate(gpuaas_node_task_failures_total[$__rate_interval]))", "{{type}} {{reason}}"}),
	}},
	{Name: "fleet", Title: "Fleet and GPUs", Portal: "/fleet", Labels: []Label{{"sku", "gpuaas_slots"}, {"region", "gpuaas_slots"}}, Panels: []Panel{
		graph("Nodes by reachability", "none", "node-silent", Query{"max by (lifecycle, reachability) (gpuaas_nodes)", "{{lifecycle}} {{reachability}}"}),
		graph("Nodes by health", "none", "gpu-unhealthy", Query{"sum by (health) (max by (health, lifecycle, reachability) (gpuaas_nodes))", "{{health}}"}),
		graph("Time since the last report", "s", "agent-silent", Query{"topk(20, time() - max by (node) (gpuaas_node_last_report_timestamp_seconds))", "{{node}}"}),
		graph("Rejected reports", "ops", "node-report-rejected", perSecond("gpuaas_node_report_rejected_total", "reason")),
		graph("GPUs by health", "none", "gpu-unhealthy", Query{`max by (sku, region, state) (gpuaas_gpus{sku=~"$sku",region=~"$region"})`, "{{sku}} {{region}} {{state}}"}),
		graph("Slots by state", "none", "release-failed", Query{`sum by (state) (max by (sku, region, state) (gpuaas_slots{sku=~"$sku",region=~"$region"}))`, "{{state}}"}),
		graph("Share of claimed slots", "percentunit", "README", Query{`sum by (sku) (max by (sku, region) (gpuaas_slots{state="claimed",sku=~"$sku",region=~"$region"})) / sum by (sku) (max by (sku, region, state) (gpuaas_slots{sku=~"$sku",region=~"$region"}))`, "{{sku}}"}),
		graph("Remaining validity of certificates", "s", "cert-expiring", Query{"min by (quantile) (gpuaas_certificate_expiry_seconds)", "quantile {{quantile}}"}),
		graph("Rollouts of agents", "none", "agent-update-stopped", Query{"max by (state) (gpuaas_agent_rollouts)", "{{state}}"}),
		graph("Agents by version", "none", "agent-update-stopped", Query{"count by (version) (gpuaas_agent_info)", "{{version}}"}),
		graph("Agents without a helper", "none", "agent-silent", Query{"count(gpuaas_agent_helper_up == 0) or vector(0)", "agents"}),
	}},
	{Name: "billing", Title: "Billing and payments", Portal: "/admin/payments", Panels: []Panel{
		graph("Time for which use is not charged", "s", "accrual-lag", Query{"max(gpuaas_accrual_lag_seconds)", "lag"}),
		stat("Difference of the ledger, in minor units", "none", "ledger-mismatch", Query{"max by (currency) (gpuaas_ledger_mismatch_minor)", "{{currency}}"}),
		graph("Events of the payment provider", "ops", "stripe-webhook-failing", Query{"sum by (type, result) (rate(gpuaas_stripe_events_total[$__rate_interval]))", "{{type}} {{result}}"}),
		graph("Automatic charges without a result", "ops", "auto-topup-failing", perSecond("gpuaas_auto_topup_failures_total", "reason")),
		graph("Evidence that is missing", "none", "evidence-missing", Query{"max by (status) (gpuaas_evidence_missing)", "{{status}}"}),
	}},
	{Name: "git", Title: "Git sources", Portal: "/changes", Labels: []Label{{"source", "gpuaas_git_sync_lag_seconds"}}, Panels: []Panel{
		graph("Lag of syncs", "s", "git-sync-lag", Query{`max by (source) (gpuaas_git_sync_lag_seconds{source=~"$source"})`, "{{source}}"}),
		graph("Fetches by result", "ops", "git-sync-lag", Query{`sum by (source, result) (rate(gpuaas_git_fetch_total{source=~"$source"}[$__rate_interval]))`, "{{source}} {{result}}"}),
		graph("Drift of objects", "none", "drift-unresolved", Query{"max by (kind) (gpuaas_drift_open)", "{{kind}}"}),
	}},
	{Name: "database", Title: "PostgreSQL and NATS", Portal: "/ops", Panels: []Panel{
		graph("Connections of the servers", "none", "README", Query{"sum by (role, state) (gpuaas_db_connections)", "{{role}} {{state}}"}, Query{"sum by (role) (gpuaas_db_connections_limit)", "{{role}} limit"}),
		graph("Waits for a connection", "s", "README", perSecond("gpuaas_db_connection_wait_seconds_total", "role")),
		graph("Acquired connections", "ops", "README", perSecond("gpuaas_db_acquisitions_total", "result")),
		graph("Locks that sessions wait for", "none", "transaction-open", Query{"max(gpuaas_db_lock_waits)", "locks"}),
		graph("Longest wait for a lock", "s", "transaction-open", Query{"max(gpuaas_db_lock_wait_seconds)", "wait"}),
		graph("Oldest open transaction", "s", "transaction-open", Query{"max(gpuaas_db_oldest_transaction_seconds)", "age"}),
		graph("Used transaction ids", "percentunit", "wraparound", Query{"max by (kind) (gpuaas_db_transaction_id_age) / 2147483648", "{{kind}}"}),
		graph("Lag of replication", "bytes", "replication-lag", Query{"max(gpuaas_db_replication_lag_bytes)", "lag"}),
		graph("Transactions", "ops", "README", Query{"max by (result) (rate(gpuaas_db_transactions_total[$__rate_interval]))", "{{result}}"}),
		graph("Deadlocks", "ops", "README", Query{"max(rate(gpuaas_db_deadlocks_total[$__rate_interval]))", "deadlocks"}),
		graph("Size of the database", "bytes", "partition-overdue", Query{"max(gpuaas_db_size_bytes)", "size"}),
		graph("Dead rows by live rows", "none", "table-bloat", Query{"max by (table) (gpuaas_table_dead_rows_ratio)", "{{table}}"}),
		stat("Partitions that do not exist", "none", "partition-missing", Query{"max by (table) (gpuaas_partitions_missing)", "{{table}}"}),
		stat("Partitions past their retention", "none", "partition-overdue", Query{"max by (table) (gpuaas_partitions_overdue)", "{{table}}"}),
		graph("Servers connected to NATS", "none", "nats-disconnected", Query{"sum(gpuaas_nats_connected)", "connected"}, Query{"count(gpuaas_nats_connected)", "servers"}),
		graph("Reconnections to NATS", "ops", "nats-disconnected", Query{"sum(rate(gpuaas_nats_reconnects_total[$__rate_interval]))", "reconnections"}),
		graph("Bytes of streams", "bytes", "outbox-lag", Query{"max by (stream) (gpuaas_stream_bytes)", "{{stream}}"}),
		graph("Messages of streams", "none", "outbox-lag", Query{"max by (stream) (gpuaas_stream_messages)", "{{stream}}"}),
		graph("Secrets that did not open", "ops", "secret-open-failed", Query{"sum by (table, reason) (rate(gpuaas_secret_open_failures_total[$__rate_interval]))", "{{table}} {{reason}}"}),
	}},
	{Name: "terminal", Title: "Terminals and relay", Portal: "/admin/terminal-sessions", Panels: []Panel{
		graph("Open terminals and SSH connections", "none", "terminal-instance-down", Query{"sum by (purpose) (gpuaas_terminal_sessions)", "{{purpose}}"}),
		graph("Connections to nodes", "ops", "relay-failing", Query{"sum by (purpose, result) (rate(gpuaas_terminal_connects_total[$__rate_interval]))", "{{purpose}} {{result}}"}),
		graph("Time until a shell has begun", "s", "relay-failing", quantiles("gpuaas_terminal_open_seconds", "")...),
		graph("Rejected tokens", "ops", "terminal-rejects", perSecond("gpuaas_terminal_token_rejects_total", "code")),
		graph("Bytes of sessions", "Bps", "relay-failing", perSecond("gpuaas_terminal_bytes_total", "direction")),
		graph("Connections of agents", "none", "relay-failing", Query{"sum by (kind) (gpuaas_relay_streams)", "{{kind}}"}),
	}},
	{Name: "events", Title: "Events, notifications and webhooks", Portal: "/admin/events", Panels: []Panel{
		graph("Events in the outbox", "none", "outbox-lag", Query{"max by (stream) (gpuaas_outbox_pending)", "{{stream}}"}),
		graph("Age of the oldest event in the outbox", "s", "outbox-lag", Query{"max by (stream) (gpuaas_outbox_oldest_age_seconds)", "{{stream}}"}),
		graph("Dead letters", "none", "dead-letters", Query{"max by (stream) (gpuaas_dead_letters)", "{{stream}}"}),
		graph("Events that consumers have not processed", "none", "consumer-lag", Query{"max by (consumer) (gpuaas_consumer_pending)", "{{consumer}}"}),
		graph("Lag of consumers", "s", "consumer-lag", Query{"max by (consumer) (gpuaas_consumer_lag_seconds)", "{{consumer}}"}),
		graph("Failures of consumers", "ops", "dead-letters", perSecond("gpuaas_consumer_failures_total", "consumer")),
		graph("Notifications", "ops", "mail-failing", Query{"sum by (channel, result) (rate(gpuaas_notifications_total[$__rate_interval]))", "{{channel}} {{result}}"}),
		graph("Requests to webhooks", "ops", "webhook-backlog", perSecond("gpuaas_webhook_deliveries_total", "result")),
		graph("Duration of requests to webhooks", "s", "webhook-backlog", quantiles("gpuaas_webhook_latency_seconds", "")...),
		graph("Backlog of webhooks", "s", "webhook-backlog", Query{"max(gpuaas_webhook_backlog_seconds)", "backlog"}),
		graph("Clients of event streams", "none", "README", Query{"sum by (transport) (gpuaas_stream_clients)", "{{transport}}"}),
	}},
	{Name: "storage", Title: "Storage", Portal: "/ops", Panels: []Panel{
		stat("Files and folders", "none", "storage-mismatch", Query{"max(gpuaas_storage_objects)", ""}),
		graph("Bytes of files", "bytes", "storage-nearly-full", Query{"max(gpuaas_storage_bytes)", "stored"}, Query{"max(gpuaas_storage_reserved_bytes)", "reserved"}),
		graph("Capacity of the object store", "bytes", "storage-nearly-full", Query{"max by (state) (gpuaas_storage_capacity_bytes)", "{{state}}"}),
		graph("Files with a fault", "none", "storage-mismatch", Query{"max by (fault) (gpuaas_storage_faults)", "{{fault}}"}),
		graph("Requests to the object store", "reqps", "storage-errors", perSecond("gpuaas_storage_requests_total", "operation")),
		graph("Failed requests to the object store", "reqps", "storage-errors", perSecond("gpuaas_storage_errors_total", "operation")),
		graph("Duration of requests to the object store", "s", "storage-errors", quantiles("gpuaas_storage_request_seconds", "")...),
	}},
	{Name: "tenants", Title: "What tenants experience", Portal: "/admin/allocations", Labels: []Label{{"sku", "gpuaas_allocations"}}, Panels: []Panel{
		graph("Allocations by status", "none", "release-failed", Query{`sum by (status) (max by (status, sku) (gpuaas_allocations{sku=~"$sku"}))`, "{{status}}"}),
		graph("Time until an allocation is ready", "s", "allocation-slow", quantiles("gpuaas_allocation_ready_seconds", `sku=~"$sku"`)...),
		graph("Ended requests for allocations", "ops", "allocation-slow", perSecond("gpuaas_allocation_ready_seconds_count", "result")),
		graph("Free slots", "none", "README", Query{`sum by (sku, region) (max by (sku, region, state) (gpuaas_slots{state="free",sku=~"$sku"}))`, "{{sku}} {{region}}"}),
		graph("Share of requests without an error of the server", "percentunit", "error-budget-burn", Query{`1 - (sum(rate(gpuaas_http_request_duration_seconds_count{status="5xx"}[$__rate_interval])) or vector(0)) / sum(rate(gpuaas_http_request_duration_seconds_count[$__rate_interval]))`, "good"}),
		graph("Limited requests", "reqps", "README", Query{`sum by (class) (rate(gpuaas_ratelimit_decisions_total{result="limited"}[$__rate_interval]))`, "{{class}}"}),
		graph("Lag of e-mails and webhooks", "s", "webhook-backlog", Query{"max(gpuaas_webhook_backlog_seconds)", "webhooks"}, Query{"max(gpuaas_consumer_lag_seconds)", "events"}),
	}},
}
