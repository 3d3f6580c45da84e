package rest

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/docs"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// GetRunbook handles GET /api/v1/runbooks/{name}.
func (*health) GetRunbook(_ context.Context, req oapi.GetRunbookRequestObject) (oapi.GetRunbookResponseObject, error) {
	text, err := docs.Runbooks.ReadFile("runbooks/" + req.Name + ".md")
	if err != nil {
		return nil, errs.New(errs.NotFound, "no runbook is named %q", req.Name)
	}
	return oapi.GetRunbook200JSONResponse{Name: req.Name, Text: string(text)}, nil
}
