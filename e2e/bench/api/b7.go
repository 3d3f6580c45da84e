package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// metadataOperations is the number of operations of one run of B7.
const metadataOperations = 5000

// statPath is a folder of each tenant that the reads of B7 describe.
const statPath = "/api/v1/storage/stat?path=data%2Ftrain"

// Metadata compares operations of files without bytes with pgbench, which sends the same statements: the creation of a folder,
// and the description of one.
func Metadata(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(metadataOperations, 10*lab.Connections) / lab.Connections * lab.Connections
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := Stall(ctx, l, "b7")
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); s.Stop() }()
	if err := s.makeFolders(ctx); err != nil {
		return nil, err
	}
	made, err := s.measureFolders(ctx, n)
	if err != nil {
		return nil, err
	}
	read, err := s.measureStat(ctx, n)
	return []lab.Row{made, read}, err
}

// makeFolders creates the folder of statPath for each tenant, and with it the outermost folder of its project.
func (s *apiServer) makeFolders(ctx context.Context) error {
	for tenant := range lab.Stalls.Tenants {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/api/v1/storage/mkdir", strings.NewReader(`{"path":"data/train"}`))
		if err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+lab.Token(tenant))
		r.Header.Set("Content-Type", "application/json")
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
		text, err := io.ReadAll(w.Body)
		_ = w.Body.Close()
		if err != nil || w.StatusCode != http.StatusCreated {
			return fmt.Errorf("making a folder: status %d: %s: %w", w.StatusCode, text, err)
		}
	}
	return nil
}

func (s *apiServer) measureFolders(ctx context.Context, n int) (lab.Row, error) {
	create := lab.LoadParameters{Address: s.address, Connections: lab.Connections, Tenants: lab.Stalls.Tenants, Folders: true}
	create.Count, create.Keys = 4*lab.Connections, "warm"
	if _, err := sendLoad(ctx, s.lab, create); err != nil {
		return lab.Row{}, err
	}
	log, err := s.logged(ctx, lab.LoadParameters{Address: s.address, Count: 4, Connections: 1, Tenants: 1, Keys: lab.Captured, Folders: true})
	if err != nil {
		return lab.Row{}, err
	}
	script, err := lab.Typed(ctx, s.Url, withScope(lab.LastCreate(lab.Entries(log))))
	if err != nil {
		return lab.Row{}, err
	}
	peer, err := s.lab.Pgbench(ctx, s.Url, "b7", script.Pipelined(), n)
	if err != nil {
		return lab.Row{}, err
	}
	ours := func(ctx context.Context) (time.Duration, error) {
		s.runs++
		create.Count, create.Keys = n, fmt.Sprintf("run%d", s.runs)
		return sendLoad(ctx, s.lab, create)
	}
	for _, side := range []lab.Side{ours, peer} {
		if err := s.sameFolders(ctx, n, side); err != nil {
			return lab.Row{}, err
		}
	}
	p, err := s.lab.Alternate(ctx, lab.LeastPairs, s.removeFolders, ours, peer)
	if err != nil {
		return lab.Row{}, err
	}
	r := lab.Throughput(p, n, "B7", "creation of a folder, everything on / pgbench, same statements pipelined").AtLeast(0.5)
	r.Note = fmt.Sprintf("%d folders a run over %d connections; %d statements each", n, lab.Connections, len(script))
	return r, nil
}

var beginning = regexp.MustCompile(`^begin; set local gpuaas\.tenant = ('[^']*'); set local gpuaas\.principal = ('[^']*')$`)

// withScope makes the constants of the scope of a transaction parameters, which pgbench can vary.
func withScope(script lab.Script) (varied lab.Script) {
	for _, one := range script {
		m := beginning.FindStringSubmatch(one.Sql)
		if m == nil {
			varied = append(varied, one)
			continue
		}
		begin, scope := one, one
		begin.Sql = "begin"
		scope.Sql, scope.Params = `SELECT set_config('gpuaas.tenant', $1, true), set_config('gpuaas.principal', $2, true)`, m[1:]
		varied = append(varied, begin, scope)
	}
	return varied
}

// sameFolders checks that a side adds as many folders as it should.
func (s *apiServer) sameFolders(ctx context.Context, n int, side lab.Side) error {
	if err := s.removeFolders(ctx); err != nil {
		return err
	}
	if _, err := side(ctx); err != nil {
		return err
	}
	made, err := lab.One[int](ctx, s.Url, `SELECT count(*) FROM storage_objects WHERE name NOT IN ('', 'data', 'train')`)
	if err == nil && made != n {
		err = fmt.Errorf("%d creations left %d folders", n, made)
	}
	return err
}

// removeFolders leaves the folders of makeFolders.
func (s *apiServer) removeFolders(ctx context.Context) error {
	return s.lab.Exec(ctx, s.Url, `TRUNCATE idempotency_keys`, `DELETE FROM storage_objects WHERE name NOT IN ('', 'data', 'train')`,
		`UPDATE storage_usage SET objects = 3`, `VACUUM ANALYZE storage_objects`, `VACUUM ANALYZE storage_usage`, `CHECKPOINT`)
}

func (s *apiServer) measureStat(ctx context.Context, n int) (lab.Row, error) {
	script, err := s.captureView(ctx, statPath)
	if err != nil {
		return lab.Row{}, err
	}
	peer, err := s.lab.Pgbench(ctx, s.Url, "b7-stat", script.Pipelined(), n)
	if err != nil {
		return lab.Row{}, err
	}
	read := func(ctx context.Context) (time.Duration, error) {
		return sendLoad(ctx, s.lab, lab.LoadParameters{Address: s.address, Count: n, Connections: lab.Connections, Tenants: lab.Stalls.Tenants, Paths: []string{statPath}})
	}
	p, err := s.lab.Alternate(ctx, lab.LeastPairs, func(context.Context) error { return nil }, read, peer)
	if err != nil {
		return lab.Row{}, err
	}
	r := lab.Throughput(p, n, "B7-stat", "description of a file, everything on / pgbench, same statements in one batch").AtLeast(0.5)
	r.Note = fmt.Sprintf("%d statements", len(script))
	return r, nil
}
