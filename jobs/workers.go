package jobs

import (
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/jobs/evidence"
	"github.com/gpuaas/gpuaas/jobs/mails"
	"github.com/gpuaas/gpuaas/jobs/money"
	"github.com/gpuaas/gpuaas/jobs/stored"
)

// Workers returns the workers of all kinds of jobs. A kind that is not listed here is never executed.
func Workers(d *Deps) *river.Workers {
	w := river.NewWorkers()
	river.AddWorker(w, &ensureAllocation{d: d})
	river.AddWorker(w, &releaseAllocation{d: d})
	river.AddWorker(w, &probeNode{d: d})
	river.AddWorker(w, &recordAllocation{d: d})
	river.AddWorker(w, &recordNode{d: d})
	river.AddWorker(w, &concludeAllocation{d: d})
	river.AddWorker(w, &creditFault{d: d})
	river.AddWorker(w, &resetGPU{d: d})
	river.AddWorker(w, &applyObject{d: d})
	river.AddWorker(w, &rekeyAllocations{d: d})
	river.AddWorker(w, &sendAuthorities{d: d})
	river.AddWorker(w, &sendAccess{d: d})
	river.AddWorker(w, &checkMeters{d: d})
	river.AddWorker(w, &checkDrift{d: d})
	river.AddWorker(w, &checkHealth{d: d})
	money.AddWorkers(w, money.Deps{Services: d.Services, Log: d.Log})
	mails.AddWorkers(w, d.Notifications)
	river.AddWorker(w, &placeQueued{d: d})
	river.AddWorker(w, &warnExpiring{d: d})
	river.AddWorker(w, &stopIdle{d: d})
	river.AddWorker(w, &maintenance{d: d})
	river.AddWorker(w, &sealAudit{d: d})
	river.AddWorker(w, &sealLedger{d: d})
	river.AddWorker(w, &cleanStorage{d: d})
	stored.AddWorkers(w, d.StorageCheck)
	evidence.AddWorkers(w, evidence.Deps{Services: d.Services, Tasks: d.Tasks})
	river.AddWorker(w, &reportForge{d: d})
	river.AddWorker(w, &rollAgents{d: d})
	AddWebhookWorkers(w, d)
	return w
}

// AddWebhookWorkers adds the workers that send to webhook endpoints.
func AddWebhookWorkers(w *river.Workers, d *Deps) {
	river.AddWorker(w, &deliverWebhook{d: d})
	river.AddWorker(w, &retryWebhooks{d: d})
}
