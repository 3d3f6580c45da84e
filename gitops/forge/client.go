package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	// A hundred pull requests of GitHub weigh 3 MB.
	maxAnswer = 16 << 20
	// Of a hundred each, on Gitea of fifty.
	maxPages = 20
	maxPulls = 1000
)

type client struct {
	dialect

	base   string
	header http.Header
	http   *http.Client
	clock  clock.Clock
}

func (c *client) Open(ctx context.Context, branch string) ([]Pull, error) {
	var all []Pull
	for page := 1; page <= maxPages && len(all) < maxPulls; page++ {
		body, more, err := c.get(ctx, c.pulls(branch, page))
		if err != nil {
			return nil, fmt.Errorf("listing pull requests: %w", err)
		}
		found, err := c.readPulls(body, branch)
		if err != nil {
			return nil, unread(err)
		}
		if all = append(all, found...); !more {
			break
		}
	}
	return all[:min(len(all), maxPulls)], nil
}

func (c *client) Status(ctx context.Context, commit string, s Status) error {
	path, body := c.status(commit, s)
	_, err := c.send(ctx, http.MethodPost, path, body)
	if said, ok := errors.AsType[*answer](err); ok && c.unchanged(said) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stating %s of %s: %w", s.Context, commit, err)
	}
	return nil
}

// get reads a page, and whether there is another one.
func (c *client) get(ctx context.Context, path string) (body []byte, more bool, err error) {
	res, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, false, err
	}
	// Only the existence of a next page is read. The client computes its address, because a forge
	// must not choose it.
	return res.body, strings.Contains(res.header.Get("Link"), `rel="next"`), nil
}

func (c *client) send(ctx context.Context, method, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a request: %w", err)
	}
	res, err := c.do(ctx, method, path, text)
	return res.body, err
}

type response struct {
	header http.Header
	body   []byte
}

func (c *client) do(ctx context.Context, method, path string, body []byte) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return response{}, fmt.Errorf("making a request: %w", err)
	}
	req.Header = c.header.Clone()
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return response{}, errs.New(errs.Unavailable, "the forge cannot be reached").Because(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return response{}, errs.New(errs.Unavailable, "the forge ended its response early").Because(err)
	case len(text) > maxAnswer:
		return response{}, errs.New(errs.ProviderFailed, "the response of the forge has more than %d MiB", maxAnswer>>20)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return response{}, failure(res, text, c.clock.Now())
	}
	return response{header: res.Header, body: text}, nil
}

func unread(err error) error {
	return errs.New(errs.ProviderFailed, "the response of the forge is not valid").Because(err)
}

// answer is an error response of the forge.
type answer struct {
	status  int
	message string
	wait    time.Duration // the requested pause
}

func (a *answer) Error() string { return fmt.Sprintf("the forge responds %d: %s", a.status, a.message) }
