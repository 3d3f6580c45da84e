package api

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// views are the read models of a tenant, by the end of the id of their row.
var views = []struct{ name, path string }{
	{"overview", "/api/v3/compute/overview"},
	{"offers", "/api/v3/compute/offers"},
	{"allocations", "/api/v3/compute/allocations"},
	{"billing", "/api/v3/billing/overview"},
	{"usage", "/api/v3/billing/usage"},
	{"access", "/api/v3/access/me"},
}

// viewReads is the number of reads of one run. perTenant is the number of allocations of a tenant, and more how many times of
// them there are for the second count of statements.
const (
	viewReads = 320
	perTenant = 4
	more      = 100
)

// ReadModels compares each read model of a tenant with pgbench, which sends the same statements in one batch, and counts
// the statements with more data.
func ReadModels(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := Stall(ctx, l, "w5")
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); s.Stop() }()
	if _, err := s.load(ctx, perTenant*lab.Stalls.Tenants); err != nil {
		return nil, err
	}
	n := l.Scaled(viewReads, 10*lab.Connections) / lab.Connections * lab.Connections
	var rows []lab.Row
	counts := map[string]int{}
	for _, v := range views {
		script, err := s.captureView(ctx, v.path)
		if err != nil {
			return nil, err
		}
		counts[v.name] = len(script)
		peer, err := l.Pgbench(ctx, s.Url, "w5-"+v.name, script.Pipelined(), n)
		if err != nil {
			return nil, err
		}
		read := func(ctx context.Context) (time.Duration, error) {
			return sendLoad(ctx, l, lab.LoadParameters{Address: s.address, Count: n, Connections: lab.Connections, Tenants: lab.Stalls.Tenants, Paths: []string{v.path}})
		}
		p, err := l.Alternate(ctx, lab.LeastPairs, func(context.Context) error { return nil }, read, peer)
		if err != nil {
			return nil, err
		}
		r := p.Row("W5-"+v.name, "GET "+v.path+" / pgbench, its statements in one batch", n).AtMost(3)
		r.Unit, r.Ours, r.Peer = " ms", 1000*r.Ours/float64(n)*lab.Connections, 1000*r.Peer/float64(n)*lab.Connections
		r.Note = fmt.Sprintf("%d statements", len(script))
		rows = append(rows, r)
	}
	added, err := s.statementsWithMore(ctx, l, counts)
	if err != nil {
		return rows, err
	}
	return append(rows, added), nil
}

// statementsWithMore counts the statements that the read models need in addition, once tenant 0 has more allocations.
func (s *apiServer) statementsWithMore(ctx context.Context, l *lab.Lab, counts map[string]int) (lab.Row, error) {
	n := l.Scaled(perTenant*more, perTenant)
	if _, err := sendLoad(ctx, l, lab.LoadParameters{Address: s.address, Count: n, Connections: lab.Connections, Tenants: 1, Keys: "more"}); err != nil {
		return lab.Row{}, err
	}
	var added int
	var notes []string
	for _, v := range views {
		script, err := s.captureView(ctx, v.path)
		if err != nil {
			return lab.Row{}, err
		}
		if d := len(script) - counts[v.name]; d > 0 {
			added += d
			notes = append(notes, fmt.Sprintf("%s %d", v.name, d))
		}
	}
	return lab.Row{
		ID: "W5-statements", Path: fmt.Sprintf("statements of all of them in addition, with %d more allocations", n),
		Ours: float64(added), Goal: "0", Met: new(added == 0), Note: strings.Join(notes, ", "),
	}, nil
}

// captures is the number of reads of which the shortest counts: a cache of the server may expire before one.
const captures = 3

// captureView returns the statements of one read whose caches are filled.
func (s *apiServer) captureView(ctx context.Context, path string) (shortest lab.Script, err error) {
	n := captures
	if s.lab.Smoke {
		n = 1
	}
	for i := range n {
		script, err := s.captureOne(ctx, path)
		if err != nil {
			return nil, err
		}
		if i == 0 || len(script) < len(shortest) {
			shortest = script
		}
	}
	return lab.Typed(ctx, s.Url, shortest)
}

func (s *apiServer) captureOne(ctx context.Context, path string) (lab.Script, error) {
	read := lab.LoadParameters{Address: s.address, Count: 2 * lab.Connections, Connections: lab.Connections, Tenants: 1, Paths: []string{path}}
	if _, err := sendLoad(ctx, s.lab, read); err != nil {
		return nil, err
	}
	read.Count, read.Connections = 1, 1
	log, err := s.logged(ctx, read)
	if err != nil {
		return nil, err
	}
	var script lab.Script
	for _, one := range lab.Entries(byProcess(log)) {
		// The isolation level cannot be set behind other statements of the same batch.
		if !strings.HasPrefix(one.Sql, "SET TRANSACTION") && !strings.HasPrefix(one.Sql, "-- ping") {
			script = append(script, one)
		}
	}
	return script, nil
}

var ofProcess = regexp.MustCompile(`(?s)^(\d+) (.*)$`)

// byProcess sorts the entries of a log by process: the sections of a read model use several connections at once.
func byProcess(log string) string {
	entries := map[string][]string{}
	var order []string
	for entry := range strings.SplitSeq(log, "~~") {
		m := ofProcess.FindStringSubmatch(entry)
		if m == nil {
			continue
		}
		if !slices.Contains(order, m[1]) {
			order = append(order, m[1])
		}
		entries[m[1]] = append(entries[m[1]], m[2])
	}
	var text strings.Builder
	for _, process := range order {
		for _, entry := range entries[process] {
			text.WriteString("~~" + entry)
		}
	}
	return text.String()
}
