package fleet

import (
	"context"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/product/fleet"
)

// ListAdminNodes handles GET /api/v1/admin/nodes.
func (s *Handlers) ListAdminNodes(ctx context.Context, req oapi.ListAdminNodesRequestObject) (oapi.ListAdminNodesResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	f := fleet.Filter{
		Region: request.Or(p.Region, ""), SKU: request.Or(p.Sku, ""), Lifecycle: string(request.Or(p.Lifecycle, "")), Health: string(request.Or(p.Health, "")),
		Reachability: string(request.Or(p.Reachability, "")), Part: request.Or(p.Q, ""), Sort: string(request.Or(p.Sort, "")),
	}
	if err := s.Cursors.Open(r, p.Cursor, &f.After); err != nil {
		return nil, err
	}
	limit := response.PageSize(p.Limit)
	f.Limit = limit + 1
	nodes, err := s.Fleet.Nodes(ctx, f)
	if err != nil {
		return nil, err
	}
	nodes, next, link, err := response.CutPage(s.Cursors, r, limit, nodes, func(n fleet.Node) any { return fleet.Sorts.PlaceOf(f.Sort, n) })
	if err != nil {
		return nil, err
	}
	named := make([]uuid.UUID, len(nodes))
	for i, n := range nodes {
		named[i] = n.ID.UUID
	}
	updates, err := s.Releases.Latest(ctx, s.DB, named)
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Node, len(nodes))
	for i, n := range nodes {
		items[i] = s.toNode(n)
		if latest, found := updates[n.ID]; found {
			items[i].AgentUpdates = toUpdates([]agentrelease.Try{latest})
		}
	}
	return oapi.ListAdminNodes200JSONResponse{
		Body:    oapi.NodeList{Items: items, NextCursor: next},
		Headers: oapi.ListAdminNodes200ResponseHeaders{Link: link},
	}, nil
}

// GetAdminNode handles GET /api/v1/admin/nodes/{name}.
func (s *Handlers) GetAdminNode(ctx context.Context, req oapi.GetAdminNodeRequestObject) (oapi.GetAdminNodeResponseObject, error) {
	ctx, _ = request.Of(ctx)
	shown, err := s.wholeNode(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	return oapi.GetAdminNode200JSONResponse(shown), nil
}

// CreateEnrolmentToken handles POST /api/v1/admin/nodes/{name}/enrolment-token. A repeated request
// creates another token, because the API does not store the secret.
func (s *Handlers) CreateEnrolmentToken(ctx context.Context, req oapi.CreateEnrolmentTokenRequestObject) (oapi.CreateEnrolmentTokenResponseObject, error) {
	ctx, r := request.Of(ctx)
	n, _, err := s.Fleet.Node(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	token, expires, err := s.Fleet.IssueTokenTo(ctx, r.Caller, n.ID)
	if err != nil {
		return nil, err
	}
	shown := oapi.EnrolmentToken{Node: n.Name, Token: token, ExpiresAt: expires.UTC()}
	if f := s.Parts.Installer.Command(token); f != nil {
		facts := oapi.InstallFacts{Server: f.Server, CaFingerprint: f.CAFingerprint, Command: f.Command, Binaries: make([]oapi.AgentBinary, len(f.Builds))}
		for i, b := range f.Builds {
			facts.Binaries[i] = oapi.AgentBinary{Platform: b.Platform, Sha256: b.SHA256}
		}
		shown.Install = &facts
	}
	return oapi.CreateEnrolmentToken201JSONResponse{
		Body:    shown,
		Headers: oapi.CreateEnrolmentToken201ResponseHeaders{Location: "/api/v1/admin/nodes/" + n.Name},
	}, nil
}

func (s *Handlers) toNode(n fleet.Node) oapi.Node {
	naming := s.Naming
	naming.Region = n.Spec.Region
	return oapi.Node{
		Id: n.ID.UUID, Urn: naming.Name("", "", "node", n.ID.String()).String(), Name: n.Name, Sku: n.Spec.SKU, Region: n.Spec.Region,
		Onboarding: oapi.NodeOnboarding(n.Spec.Onboarding), Lifecycle: oapi.NodeLifecycle(n.Lifecycle), Health: oapi.NodeHealth(n.Health),
		Reachability: oapi.NodeReachability(n.Reachability), Occupancy: oapi.NodeOccupancy(n.Occupancy()),
		Cordoned: n.Cordoned, Message: n.Message, Slots: n.Slots, Free: n.Free, Quarantined: n.Quarantined,
		AgentVersion: response.OrNil(n.AgentVersion), Fingerprint: response.OrNil(n.Fingerprint), Address: response.OrNil(n.Spec.Address),
		DrainedAt: response.UTC(n.DrainedAt), EvictsAt: response.UTC(n.EvictAt), Occupied: &n.Held, Holds: s.toHolds(n.Holds),
		CreatedAt: n.CreatedAt.UTC(), UpdatedAt: n.UpdatedAt.UTC(), FailureDomain: response.OrNil(n.FailureDomain()), ManagementAddress: response.OrNil(n.Spec.ManagementAddress),
		RetiresAt: response.UTC(n.RetiresAt), RetiresReason: response.OrNil(n.RetiresReason),
	}
}
