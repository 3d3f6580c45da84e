package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gpuaas/gpuaas/protocol"
)

// Build downloads the build with that SHA-256 and size. The caller must verify what it received. Only
// ctx limits the duration.
func (c *Client) Build(ctx context.Context, digest string, size int64, into io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+fmt.Sprintf(protocol.PathBuild, digest), nil)
	if err != nil {
		return fmt.Errorf("making request: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("calling the node API: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
		return errors.Join(problem(response.StatusCode, text), err)
	}
	n, err := io.Copy(into, io.LimitReader(response.Body, size+1))
	switch {
	case err != nil:
		return fmt.Errorf("fetching the build: %w", err)
	case n != size:
		return fmt.Errorf("the node API sent %d bytes or more of a build of %d", n, size)
	}
	return nil
}
