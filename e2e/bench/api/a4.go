package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// A4 compares a page in the middle of a million rows with the first page. It reads many pages on
// one connection, because a single page needs less time than opening the connection.
const (
	pageSize  = 50
	pagesRead = 100
	pagePairs = 11
	// longestStride is the largest page that the contract allows.
	longestStride = 200
)

// DeepPage compares a page far down a list with its first one.
func DeepPage(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(lab.LargeFleet, 1000)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	url, err := l.Fleet(ctx, n)
	if err != nil {
		return nil, err
	}
	if err := l.Exec(ctx, url, append(lab.OpenPolicies(), fleetOwner()...)...); err != nil {
		return nil, err
	}
	s, err := serveAPI(ctx, l, "a4", url)
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); s.Stop() }()
	cursor, err := s.walk(ctx, n/2)
	if err != nil {
		return nil, err
	}
	reads, firstPage := l.Scaled(pagesRead, 5), fmt.Sprintf("%s?limit=%d", allocationsPath, pageSize)
	read := func(path string) lab.Side {
		return func(ctx context.Context) (time.Duration, error) {
			return sendLoad(ctx, l, lab.LoadParameters{Address: s.address, Count: reads, Connections: 1, Tenants: 1, Paths: []string{path}})
		}
	}
	p, err := l.Alternate(ctx, pagePairs, func(context.Context) error { return nil }, read(firstPage+"&cursor="+cursor), read(firstPage))
	if err != nil {
		return nil, err
	}
	r := p.Row("A4", fmt.Sprintf("GET allocations, page %d of %d rows / page 1", n/2/pageSize, n), reads).AtMost(1.1)
	r.Unit, r.Ours, r.Peer = " ms", 1000*r.Ours/float64(reads), 1000*r.Peer/float64(reads)
	r.Note = fmt.Sprintf("%d rows a page, one connection", pageSize)
	return []lab.Row{r}, nil
}

const allocationsPath = "/api/v1/allocations"

// fleetOwner returns the statements that create the tenant, project and user of a fleet's
// allocations, with the key that the load uses first.
func fleetOwner() []string {
	return []string{
		`INSERT INTO tenants (id, name) VALUES (uid(8), 'fleet')`,
		`INSERT INTO projects (id, org_id, name) VALUES (uid(7), uid(8), 'default')`,
		`INSERT INTO users (id, oidc_subject, email, name, role) VALUES (uid(9), 'fleet', 'fleet@bench', 'fleet', 'user')`,
		`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES (uid(8), uid(9), 'owner')`,
		`INSERT INTO project_memberships (project_id, user_id, role) VALUES (uid(7), uid(9), 'admin')`,
		`INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES (gen_random_uuid(), uid(9), 'bench', sha256('` + lab.Token(0) + `'))`,
	}
}

// walk moves down the list by the given number of rows, in the largest allowed pages, and returns
// the cursor of the next page.
func (s *apiServer) walk(ctx context.Context, rows int) (cursor string, err error) {
	for gone := 0; gone < rows; {
		stride := min(longestStride, rows-gone)
		path := fmt.Sprintf("http://%s%s?limit=%d", s.address, allocationsPath, stride)
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		if cursor, err = s.next(ctx, path); err != nil {
			return "", fmt.Errorf("after %d rows: %w", gone, err)
		}
		gone += stride
	}
	return cursor, nil
}

// next returns the cursor at the end of a page.
func (s *apiServer) next(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("asking for a page: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+lab.Token(0))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking for a page: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it has been read
	var page struct {
		NextCursor string `json:"next_cursor"`
		Detail     string `json:"detail"`
	}
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		return "", fmt.Errorf("reading a page: %w", err)
	}
	if page.NextCursor == "" {
		return "", fmt.Errorf("no page follows: %s %s", response.Status, page.Detail)
	}
	return page.NextCursor, nil
}
