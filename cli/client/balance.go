package client

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func (c *Client) Balance(ctx context.Context) (Response[oapi.Balance], error) {
	return Send[oapi.Balance](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetBalance(ctx, nil, c.InProject) })
}
