package rest

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/product/inventory"
)

// ListAdminNodes handles GET /api/v1/admin/nodes.
func (s *Server) ListAdminNodes(ctx context.Context, req oapi.ListAdminNodesRequestObject) (oapi.ListAdminNodesResponseObject, error) {
	ctx, r := of(ctx)
	var after string
	if err := s.cursors.open(r, req.Params.Cursor, &after); err != nil {
		return nil, err
	}
	limit := limitOf(req.Params.Limit)
	nodes, err := s.Inventory.Nodes(ctx, after, limit+1)
	if err != nil {
		return nil, err
	}
	nodes, next, link, err := page(s, r, limit, nodes, func(n inventory.Node) any { return n.Name })
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Node, len(nodes))
	for i, n := range nodes {
		items[i] = s.toNode(n)
	}
	return oapi.ListAdminNodes200JSONResponse{
		Body:    oapi.NodeList{Items: items, NextCursor: next},
		Headers: oapi.ListAdminNodes200ResponseHeaders{Link: link},
	}, nil
}

// GetAdminNode handles GET /api/v1/admin/nodes/{name}.
func (s *Server) GetAdminNode(ctx context.Context, req oapi.GetAdminNodeRequestObject) (oapi.GetAdminNodeResponseObject, error) {
	ctx, _ = of(ctx)
	n, devices, err := s.Inventory.Node(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	shown := s.toNode(n)
	gpus := make([]oapi.Gpu, len(devices))
	for i, d := range devices {
		gpus[i] = oapi.Gpu{
			Uuid: d.UUID, Index: d.Index, Model: d.Model, MemoryMib: d.MemoryMiB, Health: d.Health, Reasons: orEmpty(d.Reasons),
			Present: d.Present, SlotStatus: d.SlotStatus, SlotReason: d.SlotReason, AllocationId: d.Holder,
		}
	}
	shown.Gpus = &gpus
	return oapi.GetAdminNode200JSONResponse(shown), nil
}

// CreateEnrolmentToken handles POST /api/v1/admin/nodes/{name}/enrolment-token. A
// repetition makes another token: a secret is not kept to be shown again.
func (s *Server) CreateEnrolmentToken(ctx context.Context, req oapi.CreateEnrolmentTokenRequestObject) (oapi.CreateEnrolmentTokenResponseObject, error) {
	ctx, r := of(ctx)
	n, _, err := s.Inventory.Node(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	token, expires, err := s.EnrolmentToken(ctx, r.caller, n.ID)
	if err != nil {
		return nil, err
	}
	return oapi.CreateEnrolmentToken201JSONResponse{
		Body:    oapi.EnrolmentToken{Node: n.Name, Token: token, ExpiresAt: expires.UTC()},
		Headers: oapi.CreateEnrolmentToken201ResponseHeaders{Location: "/api/v1/admin/nodes/" + n.Name},
	}, nil
}

func (s *Server) toNode(n inventory.Node) oapi.Node {
	naming := s.Naming
	naming.Region = n.Region
	return oapi.Node{
		Id: n.ID.UUID, Urn: naming.Name("", "", "node", n.ID.String()).String(), Name: n.Name, Sku: n.SKU, Region: n.Region,
		Onboarding: oapi.NodeOnboarding(n.Onboarding), Lifecycle: oapi.NodeLifecycle(n.Lifecycle), Health: oapi.NodeHealth(n.Health),
		Reachability: oapi.NodeReachability(n.Reachability), Occupancy: oapi.NodeOccupancy(n.Occupancy()),
		Cordoned: n.Cordoned, Message: n.Message, Slots: n.Slots, Free: n.Free, Quarantined: n.Quarantined,
	}
}
