package agent

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gpuaas/gpuaas/protocol"
)

// writeMetrics writes what Prometheus reads. It is written by hand: a library would
// weigh more than all that the agent does.
func writeMetrics(w io.Writer, st Status, s *statusRecord) {
	up := 0
	if st.Helper != nil {
		up = 1
	}
	metric(w, "gpuaas_agent_info", "gauge", "Version of the agent.")
	fmt.Fprintf(w, "gpuaas_agent_info{version=%q} 1\n", st.Version)
	metric(w, "gpuaas_agent_helper_up", "gauge", "1 if the helper is reachable.")
	fmt.Fprintf(w, "gpuaas_agent_helper_up %d\n", up)
	metric(w, "gpuaas_agent_last_report_timestamp_seconds", "gauge", "Time of the last accepted report; 0 if there is none.")
	fmt.Fprintf(w, "gpuaas_agent_last_report_timestamp_seconds %d\n", max(0, st.ReportedAt.Unix()))
	metric(w, "gpuaas_agent_certificate_expiry_timestamp_seconds", "gauge", "End of the validity of the node's certificate.")
	fmt.Fprintf(w, "gpuaas_agent_certificate_expiry_timestamp_seconds %d\n", max(0, st.CertificateUntil.Unix()))
	metric(w, "gpuaas_agent_tasks_total", "counter", "Finished tasks by outcome.")
	for _, outcome := range slices.Sorted(maps.Keys(st.Tasks)) {
		fmt.Fprintf(w, "gpuaas_agent_tasks_total{outcome=%q} %d\n", outcome, st.Tasks[outcome])
	}
	writeHost(w, st.Report)

	s.mu.Lock()
	defer s.mu.Unlock()
	metric(w, "gpuaas_agent_step_seconds", "summary", "Duration of task steps.")
	for _, step := range slices.Sorted(maps.Keys(s.steps)) {
		t := s.steps[step]
		fmt.Fprintf(w, "gpuaas_agent_step_seconds_sum{step=%q} %s\n", step, seconds(t))
		fmt.Fprintf(w, "gpuaas_agent_step_seconds_count{step=%q} %d\n", step, t.count)
	}
}

func writeHost(w io.Writer, r *protocol.Report) {
	if r == nil {
		return
	}
	metric(w, "gpuaas_agent_allocations", "gauge", "Allocations on the node by phase.")
	counted(w, "gpuaas_agent_allocations", "phase", r.Allocations, func(a protocol.AllocationReport) protocol.Phase { return a.Phase })
	metric(w, "gpuaas_agent_gpus", "gauge", "GPUs of the node by health.")
	counted(w, "gpuaas_agent_gpus", "health", r.Inventory.GPUs, func(g protocol.GPU) protocol.Health { return g.Health })
}

func counted[T any, K cmp.Ordered](w io.Writer, name, label string, all []T, key func(T) K) {
	counts := map[K]int{}
	for _, v := range all {
		counts[key(v)]++
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "%s{%s=\"%v\"} %d\n", name, label, k, counts[k])
	}
}

func metric(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func seconds(t stepTime) string {
	ms := t.total.Milliseconds()
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}
