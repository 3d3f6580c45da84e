package allocation

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
)

// ReportAllocationFault handles POST /api/v1/allocations/{id}/report-fault.
func (s *Handlers) ReportAllocationFault(ctx context.Context, req oapi.ReportAllocationFaultRequestObject) (oapi.ReportAllocationFaultResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	made, err := s.Managed.ReportFault(ctx, response.Change(r, s.faultReply(http.StatusAccepted)), a, request.Or(req.Body.Gpu, ""), req.Body.Message)
	if err != nil {
		return nil, err
	}
	return oapi.ReportAllocationFault202JSONResponse{Body: s.toFault(made)}, nil
}

// ListAllocationFaults handles GET /api/v1/allocations/{id}/fault-reports. A tenant does not read which operator decided.
func (s *Handlers) ListAllocationFaults(ctx context.Context, req oapi.ListAllocationFaultsRequestObject) (oapi.ListAllocationFaultsResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after uuid.UUID, n int) ([]manage.FaultReport, error) {
		return s.Managed.FaultsOf(ctx, a.ID, after, n)
	}, func(f manage.FaultReport) uuid.UUID { return f.ID }, func(f manage.FaultReport) oapi.FaultReport {
		f.DecidedBy = ""
		return s.toFault(f)
	})
	if err != nil {
		return nil, err
	}
	return oapi.ListAllocationFaults200JSONResponse{
		Body:    oapi.FaultReportList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListAllocationFaults200ResponseHeaders{Link: l.Link},
	}, nil
}

// ListFaultReports handles GET /api/v1/admin/fault-reports.
func (s *Handlers) ListFaultReports(ctx context.Context, req oapi.ListFaultReportsRequestObject) (oapi.ListFaultReportsResponseObject, error) {
	ctx, r := request.Of(ctx)
	on := map[uuid.UUID]string{}
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after uuid.UUID, n int) ([]manage.FaultReport, error) {
		list, err := s.Managed.Faults(ctx, string(request.Or(req.Params.Status, "")), after, n)
		if err != nil {
			return nil, err
		}
		nodes := make([]uuid.UUID, len(list))
		for i, f := range list {
			nodes[i] = f.Node.UUID
		}
		found, err := s.Fleet.NodesOf(ctx, nodes)
		for id, one := range found {
			on[id] = one.Name
		}
		return list, err
	}, func(f manage.FaultReport) uuid.UUID { return f.ID }, func(f manage.FaultReport) oapi.FaultReport {
		shown := s.toFault(f)
		shown.TenantId, shown.NodeName = &f.Tenant.UUID, response.OrNil(on[f.Node.UUID])
		return shown
	})
	if err != nil {
		return nil, err
	}
	return oapi.ListFaultReports200JSONResponse{
		Body:    oapi.FaultReportList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListFaultReports200ResponseHeaders{Link: l.Link},
	}, nil
}

// DecideFaultReport handles POST /api/v1/admin/fault-reports/{id}/decide.
func (s *Handlers) DecideFaultReport(ctx context.Context, req oapi.DecideFaultReportRequestObject) (oapi.DecideFaultReportResponseObject, error) {
	ctx, r := request.Of(ctx)
	decided, err := s.Managed.DecideFault(ctx, response.Change(r, s.faultReply(http.StatusOK)), req.Id, req.Body.Confirmed, req.Body.Reason)
	if err != nil {
		return nil, err
	}
	return oapi.DecideFaultReport200JSONResponse{Body: s.toFault(decided)}, nil
}

func (s *Handlers) faultReply(status int) func(manage.FaultReport) identity.Reply {
	return func(f manage.FaultReport) identity.Reply { return response.Reply(status, s.toFault(f), "", "") }
}

func (s *Handlers) toFault(f manage.FaultReport) oapi.FaultReport {
	return oapi.FaultReport{
		Id: f.ID, Urn: s.Naming.Name(f.Tenant.String(), "", "fault-report", f.ID.String()).String(), CreatedAt: f.ReportedAt.UTC(), UpdatedAt: response.Later(f.ReportedAt, f.DecidedAt),
		AllocationId: f.Allocation.UUID, Status: oapi.FaultReportStatus(f.Status), Message: f.Message, Gpu: response.OrNil(f.GPU),
		ReportedAt: f.ReportedAt.UTC(), ReportedBy: f.ReportedBy, DecidedAt: response.UTC(f.DecidedAt), DecidedBy: response.OrNil(f.DecidedBy),
		DecidedReason: response.OrNil(f.DecidedReason),
	}
}

// GetAllocationProof handles GET /api/v1/allocations/{id}/proof.
func (s *Handlers) GetAllocationProof(ctx context.Context, req oapi.GetAllocationProofRequestObject) (oapi.GetAllocationProofResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	p, err := s.Managed.Proof(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	gpus, err := s.Slots.GPUsOf(ctx, s.DB, ids.From[ids.Allocation](req.Id))
	if err != nil {
		return nil, err
	}
	shown := oapi.GetAllocationProof200JSONResponse{
		AllocationId: req.Id, ProvedAt: p.ProvedAt.UTC(), PublicKey: base64.StdEncoding.EncodeToString(p.PublicKey), Gpus: response.OrEmpty(gpus),
	}
	if err := json.Unmarshal(p.Document, &shown.Proof); err != nil {
		return nil, fmt.Errorf("reading the proof of %s: %w", a.ID, err)
	}
	return shown, nil
}
