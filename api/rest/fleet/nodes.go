package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	restchange "github.com/gpuaas/gpuaas/api/rest/change"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/slots"
)

// CreateNode handles POST /api/v1/admin/nodes.
func (s *Handlers) CreateNode(ctx context.Context, req oapi.CreateNodeRequestObject) (oapi.CreateNodeResponseObject, error) {
	ctx, r := request.Of(ctx)
	spec, err := change.SpecOf(req.Body)
	if err != nil {
		return nil, fmt.Errorf("encoding node %s: %w", req.Body.Name, err)
	}
	o, err := s.Changes.Put(ctx, s.Change.Idempotent(r, http.StatusCreated), change.Write{
		Object: desired.Object{Kind: desired.KindNode, Name: req.Body.Name, Labels: request.Or(req.Body.Labels, nil), Spec: spec},
	})
	if err != nil {
		return nil, undeclarable(req.Body.Name, req.Body.Sku, err)
	}
	shown, err := s.Change.Show(o)
	if err != nil {
		return nil, err
	}
	return oapi.CreateNode201JSONResponse{Body: shown, Headers: oapi.CreateNode201ResponseHeaders{Location: restchange.Location(o)}}, nil
}

// undeclarable returns the error of a declaration in the terms of this operation.
func undeclarable(name, sku string, err error) error {
	var refused *errs.Error
	switch errs.CodeOf(err) { //nolint:exhaustive // the others say it well
	case errs.VersionRequired:
		return errs.New(errs.AlreadyExists, "a node is named %s already", name).At("name").Try("choose another name, or update the existing node").Because(err)
	case errs.SpecInvalid:
		if refused = response.AsCoded(err); refused != nil && refused.Field == "spec.sku" {
			return errs.New(errs.SKUUnknown, "no SKU is named %s", sku).At("sku").Because(err)
		}
	}
	return err
}

// RetireNode handles DELETE /api/v1/admin/nodes/{name}.
func (s *Handlers) RetireNode(ctx context.Context, req oapi.RetireNodeRequestObject) (oapi.RetireNodeResponseObject, error) {
	ctx, r := request.Of(ctx)
	n := desired.Name{Kind: desired.KindNode, Name: req.Name}
	o, err := s.Changes.Delete(ctx, s.Change.Idempotent(r, http.StatusAccepted), n, 0)
	shown, err := s.Change.ShowChanged(o, err)
	if err != nil {
		return nil, err
	}
	return oapi.RetireNode202JSONResponse{Body: shown}, nil
}

// CordonNode handles POST /api/v1/admin/nodes/{name}/cordon.
func (s *Handlers) CordonNode(ctx context.Context, req oapi.CordonNodeRequestObject) (oapi.CordonNodeResponseObject, error) {
	ctx, r := request.Of(ctx)
	n, err := s.Fleet.Cordon(ctx, s.keepNode(r, http.StatusOK), req.Name, req.Body.Reason, response.UTC(req.Body.Until))
	if err != nil {
		return nil, err
	}
	return oapi.CordonNode200JSONResponse{Body: s.toNode(n)}, nil
}

// UncordonNode handles POST /api/v1/admin/nodes/{name}/uncordon.
func (s *Handlers) UncordonNode(ctx context.Context, req oapi.UncordonNodeRequestObject) (oapi.UncordonNodeResponseObject, error) {
	ctx, r := request.Of(ctx)
	force := req.Body != nil && request.Or(req.Body.Force, false)
	if force && r.Caller.Role != "admin" {
		return nil, errs.New(errs.Forbidden, "only an admin can remove the holds of other operators").At("force").Try("request the removal from the owner of the hold, or from an admin")
	}
	if err := s.declaredCordon(ctx, req.Name); err != nil {
		return nil, err
	}
	n, err := s.Fleet.Uncordon(ctx, s.keepNode(r, http.StatusOK), req.Name, force)
	if err != nil {
		return nil, err
	}
	return oapi.UncordonNode200JSONResponse{Body: s.toNode(n)}, nil
}

// declaredCordon rejects the removal of a cordon that the desired object contains.
func (s *Handlers) declaredCordon(ctx context.Context, name string) error {
	o, err := s.Desired.Get(ctx, desired.KindNode, "", name)
	if err != nil {
		if errs.CodeOf(err) == errs.NotFound {
			return nil // the service returns the same for an unknown name
		}
		return err
	}
	var spec desired.Node
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return fmt.Errorf("reading the spec of %s: %w", o.Key(), err)
	}
	switch {
	case !spec.Cordoned:
		return nil
	case o.Source.Owner == desired.OwnerGit:
		return errs.New(errs.ManagedByGit, "node %s is cordoned at %s", name, o.Source).Try("set cordoned: false in this file").
			With("path", o.Source.Path).With("line", o.Source.Line).With("repository", o.Source.Repository)
	}
	return errs.New(errs.ManagedByAPI, "the desired object of node %s is cordoned", name).Try("write it again with cordoned: false, at /api/v1/admin/desired/Node/%s", name)
}

// DrainNode handles POST /api/v1/admin/nodes/{name}/drain.
func (s *Handlers) DrainNode(ctx context.Context, req oapi.DrainNodeRequestObject) (oapi.DrainNodeResponseObject, error) {
	ctx, r := request.Of(ctx)
	by := response.UTC(req.Body.DeadlineAt)
	if req.Body.GraceMinutes != nil {
		if by != nil {
			return nil, errs.Invalid("grace_minutes", "set either deadline_at or grace_minutes")
		}
		at := s.Clock.Now().Add(time.Duration(*req.Body.GraceMinutes) * time.Minute)
		by = &at
	}
	n, err := s.Fleet.Drain(ctx, s.keepNode(r, http.StatusAccepted), req.Name, req.Body.Reason, by)
	if err != nil {
		return nil, err
	}
	return oapi.DrainNode202JSONResponse{Body: s.toNode(n)}, nil
}

// ProbeNode handles POST /api/v1/admin/nodes/{name}/probe. It stores no response for an idempotency
// key: each request starts a new probe.
func (s *Handlers) ProbeNode(ctx context.Context, req oapi.ProbeNodeRequestObject) (oapi.ProbeNodeResponseObject, error) {
	ctx, r := request.Of(ctx)
	n, _, err := s.Fleet.Node(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	if err := s.Parts.Probe(ctx, r.Caller, n); err != nil {
		return nil, err
	}
	shown, err := s.wholeNode(ctx, req.Name)
	return oapi.ProbeNode200JSONResponse(shown), err
}

// RevokeNode handles POST /api/v1/admin/nodes/{name}/revoke.
func (s *Handlers) RevokeNode(ctx context.Context, req oapi.RevokeNodeRequestObject) (oapi.RevokeNodeResponseObject, error) {
	ctx, r := request.Of(ctx)
	n, err := s.Fleet.Revoke(ctx, s.keepNode(r, http.StatusOK), req.Name, req.Body.Reason)
	if err != nil {
		return nil, err
	}
	return oapi.RevokeNode200JSONResponse{Body: s.toNode(n)}, nil
}

// OverrideNodeHealth handles POST /api/v1/admin/nodes/{name}/health-override.
func (s *Handlers) OverrideNodeHealth(ctx context.Context, req oapi.OverrideNodeHealthRequestObject) (oapi.OverrideNodeHealthResponseObject, error) {
	ctx, r := request.Of(ctx)
	h, err := s.Change.ReadHold(req.Body.Reason, req.Body.Until)
	if err != nil {
		return nil, err
	}
	n, err := s.NodeHealth.OverrideHealth(ctx, s.keepNode(r, http.StatusOK), req.Name, nodehealth.HealthOverride{
		Level: string(req.Body.Level), Target: request.Or(req.Body.Target, ""), Reason: h.Reason, Until: h.Until,
	})
	if err != nil {
		return nil, err
	}
	return oapi.OverrideNodeHealth200JSONResponse{Body: s.toNode(n)}, nil
}

// AcceptNodeHardware handles POST /api/v1/admin/nodes/{name}/accept-hardware.
func (s *Handlers) AcceptNodeHardware(ctx context.Context, req oapi.AcceptNodeHardwareRequestObject) (oapi.AcceptNodeHardwareResponseObject, error) {
	ctx, r := request.Of(ctx)
	n, err := s.NodeHealth.Accept(ctx, s.keepNode(r, http.StatusOK), req.Name, req.Body.Fingerprint, req.Body.Reason)
	if err != nil {
		return nil, err
	}
	return oapi.AcceptNodeHardware200JSONResponse{Body: s.toNode(n)}, nil
}

// GetNodeTopology handles GET /api/v1/admin/nodes/{name}/topology.
func (s *Handlers) GetNodeTopology(ctx context.Context, req oapi.GetNodeTopologyRequestObject) (oapi.GetNodeTopologyResponseObject, error) {
	ctx, _ = request.Of(ctx)
	n, _, err := s.Fleet.Node(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	w, err := s.Fleet.Wiring(ctx, s.DB, n.ID)
	if err != nil {
		return nil, err
	}
	shown := oapi.GetNodeTopology200JSONResponse{Node: req.Name, Fingerprint: response.OrNil(n.Fingerprint)}
	if err := json.Unmarshal(w.Topology, &shown.Topology); err != nil {
		return nil, fmt.Errorf("reading the topology of %s: %w", req.Name, err)
	}
	if shown.Topology == nil {
		shown.Topology = map[string]any{} // no whole report yet
	}
	return shown, nil
}

// QuarantineSlot handles POST /api/v1/admin/slots/{id}/quarantine.
func (s *Handlers) QuarantineSlot(ctx context.Context, req oapi.QuarantineSlotRequestObject) (oapi.QuarantineSlotResponseObject, error) {
	ctx, r := request.Of(ctx)
	slot, err := s.Fleet.QuarantineSlot(ctx, response.Change(r, s.slotReply), ids.From[ids.Slot](req.Id), req.Body.Reason)
	if err != nil {
		return nil, err
	}
	return oapi.QuarantineSlot200JSONResponse{Body: s.toSlot(slot)}, nil
}

// ClearSlot handles POST /api/v1/admin/slots/{id}/clear.
func (s *Handlers) ClearSlot(ctx context.Context, req oapi.ClearSlotRequestObject) (oapi.ClearSlotResponseObject, error) {
	ctx, r := request.Of(ctx)
	free := s.Fleet.ClearSlot
	if request.Or(req.Body.Inspected, false) {
		free = s.Managed.ClearInspected
	}
	slot, err := free(ctx, response.Change(r, s.slotReply), ids.From[ids.Slot](req.Id), req.Body.Reason)
	if err != nil {
		return nil, err
	}
	return oapi.ClearSlot200JSONResponse{Body: s.toSlot(slot)}, nil
}

func (s *Handlers) slotReply(slot slots.Slot) identity.Reply {
	return response.Reply(http.StatusOK, s.toSlot(slot), "", "")
}

func (s *Handlers) toSlot(slot slots.Slot) oapi.Slot {
	var by *[]string
	if len(slot.InspectedBy) > 0 {
		by = &slot.InspectedBy
	}
	return oapi.Slot{
		Id: slot.ID.UUID, Urn: s.Naming.Name("", "", "slot", slot.ID.String()).String(), CreatedAt: slot.CreatedAt.UTC(), UpdatedAt: slot.UpdatedAt.UTC(), Node: slot.Host, Gpu: slot.GPU, Sku: slot.SKU, Region: slot.Region, Status: oapi.SlotStatus(slot.Status), Reason: slot.Reason,
		AllocationId: slot.Holder, InspectedBy: by,
	}
}

// keepNode returns a change of a node, whose response is stored under its idempotency key.
func (s *Handlers) keepNode(r *request.Call, status int) identity.Change[fleet.Node] {
	return response.Change(r, func(n fleet.Node) identity.Reply { return response.Reply(status, s.toNode(n), "", "") })
}
