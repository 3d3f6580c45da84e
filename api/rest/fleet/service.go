package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/product/agentrelease"
)

// AnnounceNodeRetirement handles POST /api/v1/admin/nodes/{name}/retirement.
func (s *Handlers) AnnounceNodeRetirement(ctx context.Context, req oapi.AnnounceNodeRetirementRequestObject) (oapi.AnnounceNodeRetirementResponseObject, error) {
	ctx, r := request.Of(ctx)
	n, err := s.Managed.AnnounceRetirement(ctx, s.keepNode(r, http.StatusOK), req.Name, req.Body.Reason, req.Body.RetiresAt)
	if err != nil {
		return nil, err
	}
	return oapi.AnnounceNodeRetirement200JSONResponse{Body: s.toNode(n)}, nil
}

// ResetNodeGpu handles POST /api/v1/admin/nodes/{name}/gpus/{gpu}/reset.
func (s *Handlers) ResetNodeGpu(ctx context.Context, req oapi.ResetNodeGpuRequestObject) (oapi.ResetNodeGpuResponseObject, error) {
	ctx, r := request.Of(ctx)
	n, err := s.Fleet.ResetGPU(ctx, s.keepNode(r, http.StatusAccepted), req.Name, req.Gpu, req.Body.Reason)
	if err != nil {
		return nil, err
	}
	return oapi.ResetNodeGpu202JSONResponse{Body: s.toNode(n)}, nil
}

// toSerials reads the serial numbers of a reported topology; nil before the first one.
func toSerials(topology []byte) (*oapi.NodeSerials, error) {
	var t *struct {
		Machine struct{ Serial, Board string }           `json:"machine"`
		CPUs    []struct{ Socket, Model, Serial string } `json:"cpus"`
		NICs    []struct{ Name, Serial string }          `json:"nics"`
	}
	if err := json.Unmarshal(topology, &t); err != nil {
		return nil, fmt.Errorf("reading serial numbers: %w", err)
	}
	if t == nil {
		return nil, nil //nolint:nilnil // the node has not reported yet
	}
	shown := oapi.NodeSerials{Chassis: response.OrNil(t.Machine.Serial), Board: response.OrNil(t.Machine.Board), Cpus: []oapi.PartSerial{}, Nics: []oapi.PartSerial{}}
	for _, c := range t.CPUs {
		shown.Cpus = append(shown.Cpus, oapi.PartSerial{Name: c.Socket, Model: response.OrNil(c.Model), Serial: response.OrNil(c.Serial)})
	}
	for _, n := range t.NICs {
		shown.Nics = append(shown.Nics, oapi.PartSerial{Name: n.Name, Serial: response.OrNil(n.Serial)})
	}
	return &shown, nil
}

func toUpdates(list []agentrelease.Try) *[]oapi.AgentUpdate {
	shown := make([]oapi.AgentUpdate, len(list))
	for i, u := range list {
		shown[i] = oapi.AgentUpdate{
			Version: u.Version, Previous: u.Previous, Ring: u.Ring, Status: string(u.Status), Message: u.Message,
			RequestedAt: u.RequestedAt.UTC(), UpdatedAt: u.UpdatedAt.UTC(),
		}
	}
	return &shown
}
