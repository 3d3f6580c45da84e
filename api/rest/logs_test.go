package rest_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// logNode is the stream of a node. It sends its lines, and stays open if they have no end.
type logNode struct {
	lines  string
	opened atomic.Int32
	closed atomic.Int32
	err    error
}

func (n *logNode) Check(context.Context) error { return n.err }

func (n *logNode) Open(context.Context, string) (io.ReadCloser, error) {
	n.opened.Add(1)
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, n.lines)
		if strings.Contains(n.lines, `"end"`) {
			_ = w.Close()
		}
	}()
	return &nodeStream{PipeReader: r, node: n}, nil
}

type nodeStream struct {
	*io.PipeReader

	node *logNode
}

func (s *nodeStream) Close() error {
	s.node.closed.Add(1)
	return s.PipeReader.Close()
}

const nodeLogs = "/api/v1/admin/nodes/sim-1/logs"

// A log is text, or events with the cursors of its lines. What a node sends is cleaned: it imitates no line of the server.
func TestLogsAreTextOrEvents(t *testing.T) {
	t.Parallel()
	n := &logNode{lines: `{"at_us":1767603604000000,"n":2,"text":"a\u001b[2J\n-- forged token=abc"}` + "\n" + `{"dropped":7}` + "\n" + `{"end":"complete"}` + "\n"}
	b := setup(t, func(_ *fixture, c *rest.Config) { c.Logs = n })
	audited := `SELECT count(*)::int FROM audit_logs WHERE action = 'node.logs'`
	w := b.do(t, call{method: "GET", path: nodeLogs + "?source=kernel", token: tokenOperator})
	if want := "2026-01-05T09:00:04.000000Z a\\x1b[2J\\x0a-- forged token=[redacted]\n-- 7 lines were dropped\n"; w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	w = b.do(t, call{method: "GET", path: nodeLogs, token: tokenOperator, header: map[string]string{"Accept": "text/event-stream"}})
	want := "retry: 2000\n\nid: 1767603604000000.2\nevent: line\ndata: {\"at\":\"2026-01-05T09:00:04Z\",\"text\":\"a\\\\x1b[2J\\\\x0a-- forged token=[redacted]\"}\n\n" +
		"event: dropped\ndata: {\"lines\":7}\n\nevent: end\ndata: {\"reason\":\"complete\",\"message\":\"complete\"}\n\n"
	if w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if got := read[int](b, audited); got != 2 {
		t.Errorf("%d reads of the node are audited", got)
	}
	if open := read[int](b, `SELECT count(*)::int FROM log_streams`); open != 0 || n.closed.Load() != n.opened.Load() {
		t.Errorf("%d rows are left, %d of %d streams closed", open, n.closed.Load(), n.opened.Load())
	}
}

// Bad input, missing rights and limits have their codes, and open nothing.
func TestLogsThatAreNotOpened(t *testing.T) {
	t.Parallel()
	n := &logNode{}
	b := setup(t, func(_ *fixture, c *rest.Config) { c.Logs = n })
	id := b.allocate(t).Id.String()
	of := "/api/v1/allocations/" + id + "/logs"
	for name, try := range map[string]struct {
		call
		status int
		code   errs.Code
	}{
		"a source of operators":  {call{path: of + "?source=system", token: tokenMember}, 400, errs.ValidationError},
		"a path as a source":     {call{path: nodeLogs + "?source=/etc/shadow", token: tokenOperator}, 400, errs.ValidationError},
		"too many lines":         {call{path: of + "?tail=10001", token: tokenMember}, 400, errs.ValidationError},
		"no cursor":              {call{path: of, token: tokenMember, header: map[string]string{"Last-Event-ID": "s=1;i=2"}}, 400, errs.CursorInvalid},
		"logins before it is up": {call{path: of + "?source=login", token: tokenMember}, 409, errs.AllocationNotActive},
		"an unknown one":         {call{path: strings.Replace(of, id, uuid.NewString(), 1), token: tokenMember}, 404, errs.NotFound},
		"in no project":          {call{path: of, token: tokenStranger}, 403, errs.Forbidden},
		"an operator":            {call{path: of, token: tokenOperator}, 403, errs.Forbidden},
		"a member of a node":     {call{path: nodeLogs, token: tokenMember}, 403, errs.Forbidden},
		"an unknown node":        {call{path: "/api/v1/admin/nodes/no-such/logs", token: tokenOperator}, 404, errs.NotFound},
	} {
		try.method = http.MethodGet
		w := b.do(t, try.call)
		if p := problem(t, w); w.Code != try.status || string(p.Code) != string(try.code) {
			t.Errorf("%s: %d %s, want %d %s", name, w.Code, p.Code, try.status, try.code)
		}
	}
	b.sql(`INSERT INTO log_streams (id, node_id, principal, query, trace) SELECT gen_random_uuid(), (SELECT id FROM nodes WHERE name = 'sim-1'), gen_random_uuid(), '{}', '' FROM generate_series(1, 16)`)
	w := b.do(t, call{method: "GET", path: nodeLogs, token: tokenOperator})
	if p := problem(t, w); w.Code != http.StatusTooManyRequests || string(p.Code) != string(errs.ConcurrencyLimitReached) {
		t.Errorf("the 17th of a node: %d %s", w.Code, p.Code)
	}
	n.err = errs.New(errs.Unavailable, "no terminal server is running")
	b.sql(`DELETE FROM log_streams`)
	if w := b.do(t, call{method: "GET", path: nodeLogs, token: tokenOperator}); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a terminal server: %d", w.Code)
	}
	if opened, audited := n.opened.Load(), read[int](b, `SELECT count(*)::int FROM audit_logs WHERE action = 'node.logs'`); opened != 0 || audited != 0 {
		t.Errorf("%d streams opened, %d audited", opened, audited)
	}
}

// A stream ends within two seconds after its caller has lost the right to it, with the reason.
func TestLogsEndWithTheRight(t *testing.T) {
	t.Parallel()
	n := &logNode{lines: `{"at_us":1767603604000000,"n":1,"text":"one"}` + "\n"}
	b, url, _ := restartable(t, func(_ *fixture, c *rest.Config) { c.Logs = n })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+nodeLogs+"?follow=true", nil)
	must(t, err)
	r.Header = bearerHeader(tokenOperator)
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	until := func(text string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if strings.Contains(line, text) {
				return
			}
			if err != nil {
				t.Fatalf("%q is missing: %v", text, err)
			}
		}
	}
	until(`"text":"one"`)
	lost := time.Now()
	b.sql(`UPDATE users SET role = 'user' WHERE email = $1`, emailOf(tokenOperator))
	until(`"reason":"right_lost"`)
	if took := time.Since(lost); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
}
