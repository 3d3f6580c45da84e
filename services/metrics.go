package services

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/product/agentrelease/rollout"
)

// scrapeTimeout bounds the queries of one scrape, so that a slow database does not block scrapes.
const scrapeTimeout = 5 * time.Second

// maxSources is more than any installation has.
const maxSources = 1000

const millisecond = 1e3

var (
	dueObjects = prometheus.NewDesc("gpuaas_due_objects", "Objects that the loop must process now.", []string{"kind"}, nil)
	dueAge     = prometheus.NewDesc("gpuaas_due_oldest_age_seconds", "How long the oldest due object has waited.", []string{"kind"}, nil)
	slotCount  = prometheus.NewDesc("gpuaas_slots", "Slots by state.", []string{"sku", "region", "state"}, nil)
	gpus       = prometheus.NewDesc("gpuaas_gpus", "Devices by health; missing ones are no longer in their node's report.", []string{"sku", "region", "state"}, nil)
	nodes      = prometheus.NewDesc("gpuaas_nodes", "Nodes that are not retired.", []string{"lifecycle", "health", "reachability"}, nil)
	breaker    = prometheus.NewDesc("gpuaas_mass_action_stopped", "1 while the breaker stops automatic holds.", nil, nil)
	sourceLag  = prometheus.NewDesc("gpuaas_git_sync_lag_seconds", "For how long a source has named what is not applied, or has given no answer.", []string{"source"}, nil)
	overdue    = prometheus.NewDesc("gpuaas_state_overdue", "Objects in a state for longer than its SLA; for drift, than its deadline.", []string{"kind", "state"}, nil)
	driftOpen  = prometheus.NewDesc("gpuaas_drift_open", "Open differences of observed from desired.", []string{"kind"}, nil)

	allocations = prometheus.NewDesc("gpuaas_allocations", "Live allocations.", []string{"status", "sku"}, nil)

	storageBytes    = prometheus.NewDesc("gpuaas_storage_bytes", "Bytes of files, deleted ones included.", nil, nil)
	storageReserved = prometheus.NewDesc("gpuaas_storage_reserved_bytes", "Bytes that uploads in progress reserve.", nil, nil)
	storageObjects  = prometheus.NewDesc("gpuaas_storage_objects", "Files and folders, deleted ones included.", nil, nil)
	storageFaults   = prometheus.NewDesc("gpuaas_storage_faults", "Files whose bytes are missing or damaged, and backend objects without a file that wait for an operator.", []string{"fault"}, nil)
	storageCapacity = prometheus.NewDesc("gpuaas_storage_capacity_bytes", "Capacity of the object store, if it reports one.", []string{"state"}, nil)

	evidenceMissing = prometheus.NewDesc("gpuaas_evidence_missing", "Evidence bundles that failed in the last day, or are pending for more than an hour.", []string{"status"}, nil)

	backupAge      = prometheus.NewDesc("gpuaas_backup_age_seconds", "Time since the end of the last backup; absent without backups.", nil, nil)
	backupVerified = prometheus.NewDesc("gpuaas_backup_verified_age_seconds", "Time since a backup was restored and verified, or since the first backup; absent without backups.", nil, nil)
	backupInterval = prometheus.NewDesc("gpuaas_backup_interval_seconds", "Interval of backups by policy; absent without backups.", nil, nil)

	accrualLag = prometheus.NewDesc("gpuaas_accrual_lag_seconds", "For how long use has not been charged.", nil, nil)
	rolloutsBy = prometheus.NewDesc("gpuaas_agent_rollouts", "Versions of the agent that nodes should run, by the state of their rollout.", []string{"state"}, nil)
	lastReport = prometheus.NewDesc("gpuaas_node_last_report_timestamp_seconds", "Time of the last report of a node.", []string{"node"}, nil)
	expiry     = prometheus.NewDesc("gpuaas_certificate_expiry_seconds", "Remaining validity of node certificates: the shortest, and quantiles of the fleet.", []string{"quantile"}, nil)
)

// LoopMetrics collects what the role of the loop may read: due rows, drift, sources, slots and
// GPUs. It queries at each scrape, so an idle server computes nothing. A value that cannot be read
// is left out: a gap in a graph is true, a zero is not.
type LoopMetrics struct{ *Services }

// Describe sends the descriptions of all metrics.
func (LoopMetrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{dueObjects, dueAge, slotCount, gpus, nodes, breaker, sourceLag, driftOpen, overdue} {
		c <- d
	}
}

// Collect queries the services.
func (m LoopMetrics) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // Prometheus hands no context to a collector
	defer cancel()
	if loads, err := m.History.Load(ctx); err == nil {
		for _, l := range loads {
			c <- prometheus.MustNewConstMetric(dueObjects, prometheus.GaugeValue, float64(l.Due), l.Kind)
			c <- prometheus.MustNewConstMetric(dueAge, prometheus.GaugeValue, l.OldestFor.Seconds(), l.Kind)
			c <- prometheus.MustNewConstMetric(driftOpen, prometheus.GaugeValue, float64(l.Drifting), l.Kind)
			c <- prometheus.MustNewConstMetric(overdue, prometheus.GaugeValue, float64(l.Overdue), l.Kind, "drift")
		}
	}
	sources, err := m.Desired.Sources(ctx, "", maxSources)
	if err != nil {
		return
	}
	for _, one := range sources {
		if one.GoneAt == nil {
			c <- prometheus.MustNewConstMetric(sourceLag, prometheus.GaugeValue, one.Lag(m.Clock.Now()).Seconds(), one.Name)
		}
	}
	m.collectHealth(ctx, c)
	capacity, err := m.Slots.Capacity(ctx)
	if err != nil {
		return
	}
	for _, o := range capacity {
		for state, n := range map[string]int{"free": o.Free, "claimed": o.Claimed, "dirty": o.Dirty, "quarantined": o.Quarantined} {
			c <- prometheus.MustNewConstMetric(slotCount, prometheus.GaugeValue, float64(n), o.SKU, o.Region, state)
		}
	}
}

func (m WorkerMetrics) collectBackups(ctx context.Context, c chan<- prometheus.Metric) {
	ages, found, err := m.Backups.Ages(ctx)
	if err != nil || !found {
		return
	}
	for d, value := range map[*prometheus.Desc]time.Duration{backupAge: ages.Backup, backupVerified: ages.Verified, backupInterval: m.BackupRules().Every} {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value.Seconds())
	}
}

func (m LoopMetrics) collectHealth(ctx context.Context, c chan<- prometheus.Metric) {
	if devices, err := m.Fleet.GPUs(ctx); err == nil {
		for _, d := range devices {
			c <- prometheus.MustNewConstMetric(gpus, prometheus.GaugeValue, float64(d.N), d.SKU, d.Region, d.State)
		}
	}
	if counts, err := m.Fleet.Counts(ctx); err == nil {
		for _, n := range counts {
			c <- prometheus.MustNewConstMetric(nodes, prometheus.GaugeValue, float64(n.N), n.Lifecycle, n.Health, n.Reachability)
		}
	}
	if trip, ever, err := m.NodeHealth.Breaker(ctx); err == nil {
		stopped := 0.0
		if ever && trip.BreakerOpen() {
			stopped = 1
		}
		c <- prometheus.MustNewConstMetric(breaker, prometheus.GaugeValue, stopped)
	}
}

// WorkerMetrics collects what the role of the workers may read: allocations, charges, rollouts, reports and
// certificates of nodes.
type WorkerMetrics struct{ *Services }

// Describe sends the descriptions of all metrics.
func (WorkerMetrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{allocations, accrualLag, rolloutsBy, lastReport, expiry, storageBytes, storageReserved, storageObjects, storageFaults, storageCapacity, evidenceMissing, backupAge, backupVerified, backupInterval} {
		c <- d
	}
}

// Collect queries the services.
func (m WorkerMetrics) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // Prometheus hands no context to a collector
	defer cancel()
	if lag, err := m.Metering.Lag(ctx); err == nil {
		c <- prometheus.MustNewConstMetric(accrualLag, prometheus.GaugeValue, lag.Seconds())
	}
	if groups, err := m.Managed.Groups(ctx); err == nil {
		for _, g := range groups {
			c <- prometheus.MustNewConstMetric(allocations, prometheus.GaugeValue, float64(g.N), g.Status, g.SKU)
		}
	}
	m.collectRollouts(ctx, c)
	m.collectStorage(ctx, c)
	m.collectBackups(ctx, c)
	if missing, err := m.Evidence.Missing(ctx); err == nil {
		c <- prometheus.MustNewConstMetric(evidenceMissing, prometheus.GaugeValue, float64(missing.Failed), evidence.StatusFailed)
		c <- prometheus.MustNewConstMetric(evidenceMissing, prometheus.GaugeValue, float64(missing.Pending), evidence.StatusPending)
	}
	names, err := m.Fleet.NamesOf(ctx)
	last, failed := m.Observed.LastReports(ctx)
	if err == nil && failed == nil {
		for id, at := range last {
			if name, listed := names[id]; listed {
				c <- prometheus.MustNewConstMetric(lastReport, prometheus.GaugeValue, float64(at.UnixMilli())/millisecond, name)
			}
		}
	}
	if quantiles, err := m.Certificates.Expiry(ctx); err == nil {
		for quantile, seconds := range quantiles {
			c <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, seconds, quantile)
		}
	}
}

func (m WorkerMetrics) collectStorage(ctx context.Context, c chan<- prometheus.Metric) {
	if t, err := m.Storage.Totals(ctx); err == nil {
		c <- prometheus.MustNewConstMetric(storageBytes, prometheus.GaugeValue, float64(t.Bytes))
		c <- prometheus.MustNewConstMetric(storageReserved, prometheus.GaugeValue, float64(t.Reserved))
		c <- prometheus.MustNewConstMetric(storageObjects, prometheus.GaugeValue, float64(t.Objects))
	}
	if st, err := m.StorageCheck.State(ctx); err == nil {
		for fault, n := range map[string]int64{"missing": st.Missing, "damaged": st.Damaged, "unknown": st.Unknown} {
			c <- prometheus.MustNewConstMetric(storageFaults, prometheus.GaugeValue, float64(n), fault)
		}
	}
	if m.StorageCheck.Blobs == nil {
		return
	}
	if space, known, err := m.StorageCheck.Blobs.Space(ctx); err == nil && known {
		c <- prometheus.MustNewConstMetric(storageCapacity, prometheus.GaugeValue, float64(space.Used), "used")
		c <- prometheus.MustNewConstMetric(storageCapacity, prometheus.GaugeValue, float64(space.Free), "free")
	}
}

func (m WorkerMetrics) collectRollouts(ctx context.Context, c chan<- prometheus.Metric) {
	list, err := m.Releases.Rollouts(ctx, m.DB)
	if err != nil {
		return
	}
	count := map[rollout.State]int{rollout.Rolling: 0, rollout.Done: 0, rollout.Stopped: 0, rollout.Blocked: 0}
	for _, one := range list {
		count[one.Status]++
	}
	for state, n := range count {
		c <- prometheus.MustNewConstMetric(rolloutsBy, prometheus.GaugeValue, float64(n), string(state))
	}
}
