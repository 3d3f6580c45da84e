package client

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func (c *Client) sources(ctx context.Context, limit int) (List[oapi.GitSource], error) {
	return ReadAll[oapi.GitSource](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListGitSources(ctx, &oapi.ListGitSourcesParams{Limit: size, Cursor: cursor})
	})
}

func (c *Client) Source(ctx context.Context, name string) (Response[oapi.GitSource], error) {
	return Send[oapi.GitSource](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetGitSource(ctx, name) })
}
