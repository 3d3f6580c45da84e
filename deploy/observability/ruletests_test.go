package observability_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// condition feeds series to one alert. It must not fire while they have the first value, fire after some time with the
// second one, and resolve with the last one, which is the first one if it is missing. Others may precede these three.
type condition struct {
	series map[string]values
	// within replaces the time that a phase needs: that of the longest window and of "for".
	within time.Duration
}

// values of a gauge, or with a unit the growth of a counter per minute, or the age in seconds of a timestamp.
type values struct {
	unit   string
	phases []float64
}

func gauge(series string, phases ...float64) condition { return single(series, "", phases) }

func counter(series string, phases ...float64) condition { return single(series, "per minute", phases) }

func single(series, unit string, phases []float64) condition {
	return condition{series: map[string]values{series: {unit, phases}}}
}

// conditions have the last value at which an alert does not fire, and the first one at which it does.
var conditions = map[string][]condition{
	"GPUaaSAgentSilent":          {single(`gpuaas_node_last_report_timestamp_seconds{node="n"}`, "old", []float64{120, 121})},
	"GPUaaSNodeReportRejected":   {counter(`gpuaas_node_report_rejected_total{reason="boot"}`, 0, 1)},
	"GPUaaSNodeTaskTimeouts":     {counter(`gpuaas_node_task_failures_total{type="probe",reason="timeout"}`, .19, .21)},
	"GPUaaSCertExpiring":         {gauge(`gpuaas_certificate_expiry_seconds{quantile="0"}`, 14400, 14399)},
	"GPUaaSDriftUnresolved":      {gauge(`gpuaas_state_overdue{kind="Node",state="drift"}`, 0, 1)},
	"GPUaaSGpuUnhealthy":         {gauge(`gpuaas_gpus{sku="t4",region="eu1",state="unhealthy"}`, 0, 1)},
	"GPUaaSMassActionBreaker":    {gauge(`gpuaas_mass_action_stopped`, 0, 1)},
	"GPUaaSReconcileStalled":     {gauge(`gpuaas_due_oldest_age_seconds{kind="Node"}`, 300, 301)},
	"GPUaaSGitSyncLag":           {gauge(`gpuaas_git_sync_lag_seconds{source="fleet"}`, 600, 601)},
	"GPUaaSAccrualLag":           {gauge(`gpuaas_accrual_lag_seconds`, 900, 901)},
	"GPUaaSLedgerMismatch":       {gauge(`gpuaas_ledger_mismatch_minor{currency="EUR"}`, 0, -1)},
	"GPUaaSStripeWebhookFailing": {counter(`gpuaas_stripe_events_total{type="x",result="swept_completed"}`, 0, 1)},
	"GPUaaSAutoTopupFailing":     {counter(`gpuaas_auto_topup_failures_total{reason="timeout"}`, .0124, .0126)},
	"GPUaaSPartitionMissing":     {gauge(`gpuaas_partitions_missing{table="plans"}`, 0, 1)},
	"GPUaaSPartitionOverdue":     {gauge(`gpuaas_partitions_overdue{table="plans"}`, 0, 1)},
	"GPUaaSTableBloat":           {gauge(`gpuaas_table_dead_rows_ratio{table="plans"}`, 1, 1.1)},
	"GPUaaSBackupStale": {{series: map[string]values{
		`gpuaas_backup_age_seconds`:      {"", []float64{149, 151}},
		`gpuaas_backup_interval_seconds`: {"", []float64{100, 100}},
	}}},
	"GPUaaSBackupUnverified": {{series: map[string]values{
		`gpuaas_backup_verified_age_seconds`: {"", []float64{299, 301}},
		`gpuaas_backup_interval_seconds`:     {"", []float64{100, 100}},
	}}},
	"GPUaaSRestoreUnconfirmed": {gauge(`gpuaas_restore_unconfirmed`, 0, 1)},
	"GPUaaSSecretOpenFailed":   {counter(`gpuaas_secret_open_failures_total{table="sessions",reason="key"}`, 0, 1)},
	"GPUaaSOutboxLag":          {gauge(`gpuaas_outbox_oldest_age_seconds{stream="FLEET"}`, 60, 61)},
	"GPUaaSDeadLetters":        {gauge(`gpuaas_dead_letters{stream="FLEET"}`, 0, 1)},
	"GPUaaSConsumerLag":        {gauge(`gpuaas_consumer_lag_seconds{consumer="c"}`, 300, 301)},
	"GPUaaSMailFailing":        {counter(`gpuaas_notifications_total{kind="k",channel="email",result="failed"}`, .165, .168)},
	"GPUaaSWebhookBacklog":     {gauge(`gpuaas_webhook_backlog_seconds`, 300, 301)},
	"GPUaaSTerminalRejects":    {counter(`gpuaas_terminal_token_rejects_total{code="token_missing"}`, 1.9, 2.1)},
	"GPUaaSRelayFailing": {{series: map[string]values{
		`gpuaas_terminal_connects_total{purpose="shell",result="failed"}`:    {"per minute", []float64{1, 1}},
		`gpuaas_terminal_connects_total{purpose="shell",result="connected"}`: {"per minute", []float64{4.1, 3.9}},
	}}},
	"GPUaaSStorageErrors":    {counter(`gpuaas_storage_errors_total{operation="stat"}`, .32, .35)},
	"GPUaaSStorageMismatch":  {gauge(`gpuaas_storage_faults{fault="missing"}`, 0, 1)},
	"GPUaaSEvidenceMissing":  {gauge(`gpuaas_evidence_missing{status="failed"}`, 0, 1)},
	"GPUaaSReleaseFailed":    {gauge(`gpuaas_allocations{sku="t4",status="release_failed"}`, 0, 1)},
	"GPUaaSJobsDiscarded":    {gauge(`gpuaas_jobs{kind="k",state="discarded"}`, 0, 1)},
	"GPUaaSQueueLatency":     {gauge(`gpuaas_jobs_oldest_age_seconds{kind="k"}`, 300, 301)},
	"GPUaaSLimiterDown":      {counter(`gpuaas_ratelimit_decisions_total{class="read",result="fail_open"}`, 0, 1)},
	"GPUaaSTransactionOpen":  {gauge(`gpuaas_db_oldest_transaction_seconds`, 600, 601)},
	"GPUaaSWraparound":       {gauge(`gpuaas_db_transaction_id_age{kind="transaction"}`, 1e9, 1e9+1)},
	"GPUaaSReplicationLag":   {gauge(`gpuaas_db_replication_lag_bytes`, 10<<30, 10<<30+1)},
	"GPUaaSNatsDisconnected": {gauge(`gpuaas_nats_connected{instance="s"}`, 1, 0)},
	"GPUaaSTargetMissing":    {gauge(`up{job="gpuaas",instance="s"}`, 1, 0)},
	"GPUaaSStorageNearlyFull": {{series: map[string]values{
		`gpuaas_storage_capacity_bytes{state="free"}`: {"", []float64{100, 99}},
		`gpuaas_storage_capacity_bytes{state="used"}`: {"", []float64{900, 901}},
	}}},
	"GPUaaSAllocationSlow": {{series: map[string]values{
		`gpuaas_allocation_ready_seconds_sum{sku="t4",result="active"}`:   {"per minute", []float64{299, 301}},
		`gpuaas_allocation_ready_seconds_count{sku="t4",result="active"}`: {"per minute", []float64{1, 1}},
	}}},
	// Of 1000 requests in a minute, so many fail. At 0.6 % the window of 6 h counts, and at 1.44 % that of 1 h.
	"GPUaaSErrorBudgetBurn": {
		requests(0, 5.9, 6.1),
		requests(70*time.Minute, 0, 0, 0, 0, 0, 14.3, 14.7, 0),
		// A state is good or bad: 900 s are good for the whole window.
		gauge(`gpuaas_accrual_lag_seconds`, 900, 901),
		// 94.1 % and 93.9 % of the allocations within 60 s, at a goal of 99 %: the rate of 6 is at 94 %.
		{series: map[string]values{
			`gpuaas_allocation_ready_seconds_bucket{sku="t4",result="active",le="60"}`: {"per minute", []float64{94.1, 93.9}},
			`gpuaas_allocation_ready_seconds_count{sku="t4",result="active"}`:          {"per minute", []float64{100}},
		}},
	},
	"GPUaaSErrorBudgetSlowBurn": {requests(0, .99, 1.01)},
}

func requests(within time.Duration, phases ...float64) condition {
	return condition{within: within, series: map[string]values{
		`gpuaas_http_request_duration_seconds_count{operation="o",status="5xx"}`: {"per minute", phases},
		`gpuaas_http_request_duration_seconds_count{operation="o",status="2xx"}`: {"per minute", []float64{1000}},
	}}
}

type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

// rules reads the rules of files.
func rules(t *testing.T, texts ...string) (all []rule) {
	t.Helper()
	for _, text := range texts {
		var file struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
		for _, g := range file.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

var rangeForm = regexp.MustCompile(`(?:\[|_rate)(\d+)([mhd])`)

// duration reads 5m, 6h and 3d.
func duration(t *testing.T, n, unit string) time.Duration {
	t.Helper()
	count, err := strconv.Atoi(n)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(count) * map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[unit]
}

// phaseOf is long enough that only values of one phase count at its end.
func phaseOf(t *testing.T, r rule) time.Duration {
	t.Helper()
	longest := time.Duration(0)
	for _, m := range rangeForm.FindAllStringSubmatch(r.Expr, -1) {
		longest = max(longest, duration(t, m[1], m[2]))
	}
	waits := duration(t, strings.TrimRight(r.For, "mhd"), r.For[len(r.For)-1:])
	return longest + waits + 15*time.Minute
}

// long phases are evaluated every four minutes: promtool limits the number of samples. At five minutes a rule would not
// see what another group has recorded before it.
const long, coarse = 12 * time.Hour, 4 * time.Minute

// ruleTests is a file of tests for promtool: each alert fires, does not fire just below its limit, and resolves. It has the
// alerts whose phases are evaluated at an interval.
func ruleTests(t *testing.T, generated string, interval time.Duration) string {
	t.Helper()
	written, err := os.ReadFile("../alerts/gpuaas.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Code generated by deploy/observability. DO NOT EDIT.\nrule_files: [gpuaas.rules.yaml, gpuaas.slo.rules.yaml]\nevaluation_interval: %dm\ntests:\n", int(interval.Minutes()))
	for _, r := range rules(t, string(written), generated) {
		if r.Alert == "" {
			continue
		}
		if r.Alert == watchdog && interval != coarse {
			fmt.Fprintf(&b, "  - name: %s\n    interval: 1m\n    input_series: []\n    promql_expr_test:\n", watchdog)
			expect(&b, watchdog, 0, 1)
		}
		if len(conditions[r.Alert]) == 0 && r.Alert != watchdog {
			t.Errorf("%s has no condition", r.Alert)
		}
		for _, c := range conditions[r.Alert] {
			phase := phaseOf(t, r)
			if c.within > 0 {
				phase = c.within
			}
			if (phase > long) == (interval == coarse) {
				c.write(&b, r.Alert, phase, interval)
			}
		}
	}
	return b.String()
}

func (c condition) write(b *strings.Builder, alert string, phase, interval time.Duration) {
	step := int(interval.Minutes())
	samples := int(phase / interval)
	fmt.Fprintf(b, "  - name: %s\n    interval: %dm\n    input_series:\n", alert, step)
	for _, series := range slices.Sorted(maps.Keys(c.series)) {
		fmt.Fprintf(b, "      - {series: '%s', values: '%s'}\n", series, c.series[series].notation(c.count(), samples, float64(step)))
	}
	b.WriteString("    promql_expr_test:\n")
	last := c.count()
	for i, fires := range []int{0, 1, 0} {
		expect(b, alert, ((last-2+i)*samples-1)*step, fires)
	}
}

// watchdog always fires.
const watchdog = "GPUaaSWatchdog"

func expect(b *strings.Builder, alert string, minute, fires int) {
	fmt.Fprintf(b, "      - {expr: '(count(ALERTS{alertname=\"%s\",alertstate=\"firing\"}) > bool 0) or vector(0)', eval_time: %dm, exp_samples: [{labels: '{}', value: %d}]}\n",
		alert, minute, fires)
}

// count is the number of phases.
func (c condition) count() int {
	n := 3
	for _, v := range c.series {
		n = max(n, len(v.phases))
	}
	return n
}

// notation writes the phases of samples as promtool reads them.
func (v values) notation(count, samples int, minutes float64) string {
	var all []string
	total := 0.0
	for i := range count {
		level := v.phases[min(i, len(v.phases)-1)]
		if i == count-1 && len(v.phases) < 3 {
			level = v.phases[0]
		}
		start, slope := level, 0.0
		switch v.unit {
		case "per minute":
			start, slope = total, level*minutes
			total += slope * float64(samples)
		case "old":
			start, slope = float64(i*samples)*minutes*60-level, 60*minutes
		}
		all = append(all, fmt.Sprintf("%s+%sx%d", short(start), short(slope), samples-1))
	}
	return strings.Join(all, " ")
}

func short(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
