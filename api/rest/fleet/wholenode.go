package fleet

import (
	"context"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/change"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/nodehealth"
)

// mostTasks limits the tasks in the document of a node.
const mostTasks = 10

// wholeNode reads a node with its devices, tasks, reports, certificates and conditions.
func (s *Handlers) wholeNode(ctx context.Context, name string) (oapi.Node, error) {
	n, devices, err := s.Fleet.Node(ctx, name)
	if err != nil {
		return oapi.Node{}, err
	}
	seen, err := s.Parts.ObservedOf(ctx, n, mostTasks)
	if err != nil {
		return oapi.Node{}, err
	}
	reports, err := s.NodeHealth.Health(ctx, s.DB, n.ID)
	if err != nil {
		return oapi.Node{}, err
	}
	w, err := s.Fleet.Wiring(ctx, s.DB, n.ID)
	if err != nil {
		return oapi.Node{}, err
	}
	shown := s.toNode(n)
	if w.Changed != "" {
		shown.Changed, shown.ReportedFingerprint = &w.Changed, response.OrNil(w.Fingerprint)
	}
	gpus, err := s.toGPUs(ctx, devices)
	if err != nil {
		return oapi.Node{}, err
	}
	shown.Gpus = &gpus
	shown.Tasks, shown.HealthReports, shown.Certificates = s.toTasks(seen.Tasks), toReports(reports), toCertificates(seen.Certificates)
	shown.LastReportAt, shown.RunningAgentVersion = response.UTC(seen.ReportedAt), response.OrNil(seen.Agent)
	if shown.HardwareSerials, err = toSerials(w.Topology); err != nil {
		return oapi.Node{}, err
	}
	updates, err := s.Releases.Of(ctx, s.DB, n.ID)
	if err != nil {
		return oapi.Node{}, err
	}
	shown.AgentUpdates = toUpdates(updates)
	if seen.Object != nil {
		source := change.ToSource(seen.Object.Source)
		shown.Source = &source
		known, err := s.Change.ShowWithState(ctx, *seen.Object)
		if err != nil {
			return oapi.Node{}, err
		}
		conditions := make([]oapi.Condition, len(known[0].Status.Conditions))
		for i, c := range known[0].Status.Conditions {
			conditions[i] = oapi.Condition(c)
		}
		shown.Conditions = &conditions
	}
	return shown, s.withOwners(ctx, shown.Holds)
}

func (s *Handlers) toGPUs(ctx context.Context, devices []fleet.Device) ([]oapi.Gpu, error) {
	holders := []uuid.UUID{}
	for _, d := range devices {
		if d.Holder != nil {
			holders = append(holders, *d.Holder)
		}
	}
	names := map[uuid.UUID]string{}
	if len(holders) > 0 {
		var err error
		if names, err = s.Allocations.Names(ctx, holders); err != nil {
			return nil, err
		}
	}
	gpus := make([]oapi.Gpu, len(devices))
	for i, d := range devices {
		gpus[i] = oapi.Gpu{
			Uuid: d.UUID, Index: d.Index, Model: d.Model, MemoryMib: d.MemoryMiB, Health: d.Health, Reasons: response.OrEmpty(d.Reasons),
			Present: d.Present, SlotId: d.Slot, SlotStatus: d.SlotStatus, SlotReason: d.SlotReason, AllocationId: d.Holder,
		}
		if d.Holder != nil {
			gpus[i].AllocationName = response.OrNil(names[*d.Holder])
		}
	}
	return gpus, nil
}

// withOwners adds the names of the owners of holds.
func (s *Handlers) withOwners(ctx context.Context, holds *[]oapi.Hold) error {
	people := []uuid.UUID{}
	for _, h := range request.Or(holds, nil) {
		if id, ok := personOf(h.Owner); ok {
			people = append(people, id)
		}
	}
	if len(people) == 0 {
		return nil
	}
	names, err := s.Identity.NamesOf(ctx, s.DB, people)
	if err != nil {
		return err
	}
	for i, h := range *holds {
		if id, ok := personOf(h.Owner); ok {
			(*holds)[i].OwnerName = response.OrNil(names[id])
		}
	}
	return nil
}

func (s *Handlers) toHolds(list []fleet.Hold) *[]oapi.Hold {
	if list == nil {
		return nil
	}
	shown := make([]oapi.Hold, len(list))
	for i, h := range list {
		shown[i] = oapi.Hold{
			Id: h.ID, Urn: s.Naming.Name("", "", "hold", h.ID.String()).String(), CreatedAt: h.Since.UTC(), UpdatedAt: h.Since.UTC(), SlotId: h.Slot, Kind: oapi.HoldKind(h.Kind), Cause: oapi.HoldCause(h.Cause), Owner: h.Owner, Reason: h.Reason,
			DeadlineAt: response.UTC(h.Deadline),
		}
	}
	return &shown
}

func (s *Handlers) toTasks(list []nodetask.TaskSummary) *[]oapi.NodeTask {
	shown := make([]oapi.NodeTask, len(list))
	for i, t := range list {
		shown[i] = oapi.NodeTask{
			Id: t.ID.UUID, Urn: s.Naming.Name("", "", "task", t.ID.String()).String(), UpdatedAt: response.Later(t.CreatedAt, t.DeliveredAt, t.FinishedAt), Type: t.Type, Status: oapi.NodeTaskStatus(t.Status), Fence: t.Fence, Attempt: t.Attempt, Step: response.OrNil(t.Step),
			Code: response.OrNil(t.Code), Message: response.OrNil(t.Message), AllocationId: t.Allocation, CreatedAt: t.CreatedAt.UTC(), FinishedAt: response.UTC(t.FinishedAt),
		}
	}
	return &shown
}

func toReports(list []nodehealth.Report) *[]oapi.HealthReport {
	shown := make([]oapi.HealthReport, len(list))
	for i, h := range list {
		shown[i] = oapi.HealthReport{
			Source: h.Source, Target: h.Target, Level: oapi.HealthReportLevel(h.Level), Check: h.Check, Message: h.Message, Action: response.OrNil(h.Action),
			Advice: response.OrNil(h.Advice()), StartedAt: h.Since.UTC(), Until: response.UTC(h.Until), Actor: response.OrNil(h.Actor),
		}
	}
	return &shown
}

func toCertificates(list []secret.Certificate) *[]oapi.NodeCertificate {
	shown := make([]oapi.NodeCertificate, len(list))
	for i, c := range list {
		shown[i] = oapi.NodeCertificate{
			Serial: c.Serial, Status: oapi.NodeCertificateStatus(c.Status), Issuer: response.OrNil(c.Issuer), NotAfter: c.NotAfter.UTC(),
			RevokedAt: response.UTC(c.RevokedAt), Reason: response.OrNil(c.Reason),
		}
	}
	return &shown
}
