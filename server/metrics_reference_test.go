package server

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

var update = flag.Bool("update", false, "rewrite docs/reference/metrics.md")

const metricsPage = "../docs/reference/metrics.md"

// metric is a row of the reference.
type metric struct{ name, kind, labels, help string }

var description = regexp.MustCompile(`fqName: "(gpuaas_\w+)", help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

// unalerted moves the metrics that no alert reads.
var unalerted = []func(*alarmed){
	(*alarmed).anonymous,
	runJob,
	sqlCause(insertActive, `INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health) VALUES ('GPU-2', $node, 1, 'T4', 15360, 'healthy')`,
		`INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status) VALUES (gen_random_uuid(), $node, 'GPU-2', 't4', 'eu1', 'clean')`,
		`INSERT INTO river.river_job (kind, queue, state, max_attempts, args, scheduled_at) VALUES ('y', 'unread', 'available', 1, '{}', now())`),
	func(a *alarmed) {
		a.do(func(tx pgx.Tx) error {
			return a.tasks[RoleWork].Put(a.t.Context(), tx, nodetask.Task{Node: a.node, Type: protocol.Probe, Params: protocol.ProbeParams{}})
		})
	},
	func(a *alarmed) {
		a.drift.Moved([]plan.Drift{{Kind: desired.KindNode, Move: plan.Opened}, {Kind: desired.KindNode, Move: plan.Healed}})
		a.drift.Provisioned("t4", "active", time.Second)
	},
}

// elsewhere has the types of the metrics that need the loop or a node. Their packages test that they are written.
var elsewhere = map[string]string{
	"gpuaas_reconcile_duration_seconds": "histogram", "gpuaas_node_task_dispatch_seconds": "histogram", "gpuaas_node_task_duration_seconds": "histogram",
}

// without returns the causes but that of one alert.
func without(all map[string]func(*alarmed), name string) map[string]func(*alarmed) {
	others := maps.Clone(all)
	delete(others, name)
	return others
}

// TestMetricsReference causes the conditions of all alerts on one server, and moves the other metrics. Each metric that the
// server registers has a sample afterwards, and the page of the reference lists it as it is registered.
func TestMetricsReference(t *testing.T) {
	t.Parallel()
	a := startAlarmed(t)
	for _, cause := range slices.Concat([]func(*alarmed){serverError}, slices.Collect(maps.Values(without(causes, stopping))), unalerted) {
		cause(a)
	}
	causes[stopping](a)
	server := registered(t, a.metrics)
	if len(server) == 0 {
		t.Error("no metric of the server was found")
	}
	families := written(t, a, server)
	compareReadings(t, families, server, agentMetrics(t))
	page := metricsHead + table(t, server) + agentHead + table(t, agentMetrics(t))
	if *update {
		if err := os.WriteFile(metricsPage, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(metricsPage)
	if diff := gocmp.Diff(string(have), page); err != nil || diff != "" {
		t.Errorf("%s is out of date: run this test with -update (%v)\n%s", metricsPage, err, diff)
	}
}

// written gathers until each metric has a sample: the relay creates streams while the test runs. It sets their types.
func written(t *testing.T, a *alarmed, server []metric) []*dto.MetricFamily {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		families, err := a.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		kinds := maps.Clone(elsewhere)
		for _, f := range families {
			kinds[f.GetName()] = strings.ToLower(f.GetType().String())
		}
		var missing []string
		for i := range server {
			if server[i].kind = kinds[server[i].name]; server[i].kind == "" {
				missing = append(missing, server[i].name)
			}
		}
		if len(missing) == 0 {
			return families
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing has written %v", missing)
		}
	}
}

// registered returns what a registry has described, without the metrics of Go and of the process.
func registered(t *testing.T, r *prometheus.Registry) (all []metric) {
	t.Helper()
	descriptions := make(chan *prometheus.Desc)
	go func() { defer close(descriptions); r.Describe(descriptions) }()
	for d := range descriptions {
		if m := description.FindStringSubmatch(d.String()); m != nil {
			constant := regexp.MustCompile(`="[^"]*"`).ReplaceAllString(m[3], "")
			all = append(all, metric{name: m[1], help: unquoted(t, m[2]), labels: strings.Trim(constant+","+m[4], ",")})
		}
	}
	return all
}

// agentMetrics reads what the agent writes from its source.
func agentMetrics(t *testing.T) (all []metric) {
	t.Helper()
	source, err := os.ReadFile("../agent/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`metric\(w, "(\w+)", "(\w+)", ("[^"]*")\)`).FindAllStringSubmatch(string(source), -1) {
		labels := regexp.MustCompile(`"` + m[1] + `(?:_sum|_count)?\{(\w+)=|counted\(w, "` + m[1] + `", "(\w+)"`).FindStringSubmatch(string(source))
		all = append(all, metric{name: m[1], kind: m[2], help: unquoted(t, m[3]), labels: strings.Join(labels[min(1, len(labels)):], "")})
	}
	if len(all) == 0 {
		t.Error("no metric of the agent was found")
	}
	return all
}

func unquoted(t *testing.T, text string) (s string) {
	t.Helper()
	if _, err := fmt.Sscanf(text, "%q", &s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

const metricsHead = `<!-- Code generated by server/metrics_reference_test.go. DO NOT EDIT. -->

# Metrics

A server exports them at ` + "`/metrics`" + ` of ` + "`--metrics-listen`" + `, with those of Go (` + "`go_`" + `) and of the process (` + "`process_`" + `). No
name, tenant or id is a label, except the name of a node or a source. Values that need the database are read at the
scrape within 5 s by the roles that may read them; a value that cannot be read is absent.

`

const agentHead = `
## Agents

An agent exports its own at the address of ` + "`--metrics-listen`" + `.

`

// table lists metrics with the alerts that read them.
func table(t *testing.T, all []metric) string {
	t.Helper()
	slices.SortFunc(all, func(x, y metric) int { return cmp.Compare(x.name, y.name) })
	all = slices.Compact(all) // a pool of connections describes its metrics for each role
	alerts := map[string][]string{}
	for name, expr := range readAlerts(t) {
		for _, m := range regexp.MustCompile(`gpuaas_\w+`).FindAllString(expr, -1) {
			m = strings.TrimSuffix(strings.TrimSuffix(m, "_bucket"), "_count")
			alerts[m] = append(alerts[m], "`"+name+"`")
		}
	}
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning | alerts |\n|---|---|---|---|---|\n")
	for _, m := range all {
		labels := strings.Join(strings.FieldsFunc(m.labels, func(r rune) bool { return r == ',' || r == ' ' }), ", ")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.name, m.kind, labels, m.help, strings.Join(slices.Compact(slices.Sorted(slices.Values(alerts[m.name]))), ", "))
	}
	return b.String()
}
