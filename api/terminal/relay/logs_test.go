package relay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/api/terminal/logs"
	"github.com/gpuaas/gpuaas/api/terminal/relay"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/logstream"
	"github.com/gpuaas/gpuaas/protocol"
)

// items reads a stream until a line contains the text.
func items(t *testing.T, from io.Reader, until string) (all []protocol.LogItem) {
	t.Helper()
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var item protocol.LogItem
		must(t, json.Unmarshal(lines.Bytes(), &item))
		all = append(all, item)
		if strings.Contains(item.Text+item.End, until) {
			return all
		}
	}
	t.Fatalf("%q is not in %+v: %v", until, all, lines.Err())
	return nil
}

// The log of an allocation follows what happens on its node, resumes after a line, and ends with the allocation.
func TestFollowingALog(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(7)
	open := func(q protocol.LogQuery) io.ReadCloser {
		t.Helper()
		conn, err := i.server.Dial(t.Context(), relay.Target{Node: i.node, Allocation: of, Fence: 7, Kind: protocol.StreamLogs, Log: &q})
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	say := func(text string) { must(t, sim.Log(i.stateDir, protocol.LogSSHD, account, text)) }
	first := open(protocol.LogQuery{Source: protocol.LogLogin, Tail: 10, Follow: true})
	say("one \x1b[2J " + strings.Repeat("x", 1<<20))
	got := items(t, first, "one")
	if text := got[0].Text; !strings.HasPrefix(text, `one \x1b[2J xxx`) || len(text) > protocol.MaxLogLine {
		t.Errorf("a hostile line has %d bytes: %.40q", len(text), text)
	}
	if got := i.streams(); got != "logs 1, ssh 0" {
		t.Errorf("open streams: %s", got)
	}
	must(t, first.Close()) // the connection is lost
	say("two")
	last := got[0]
	second := open(protocol.LogQuery{Source: protocol.LogLogin, Tail: protocol.MaxLogTail, Since: last.At, Skip: last.Number, Follow: true})
	if got := items(t, second, "two"); len(got) != 1 {
		t.Errorf("after the resume: %d lines", len(got))
	}
	say("three")
	items(t, second, "three")
	i.release(of, 8)
	items(t, second, string(protocol.NotActive))
	if _, err := i.server.Dial(t.Context(), relay.Target{Node: i.node, Allocation: of, Fence: 7, Kind: protocol.StreamLogs, Log: &protocol.LogQuery{Source: protocol.LogLogin}}); err == nil || !strings.Contains(err.Error(), string(protocol.NotActive)) {
		t.Errorf("after the release: %v", err)
	}
}

// streams returns the metric of open streams.
func (i *installation) streams() string {
	i.t.Helper()
	metrics := make(chan prometheus.Metric, 4)
	i.server.Collect(metrics)
	close(metrics)
	var all []string
	for m := range metrics {
		var v dto.Metric
		must(i.t, m.Write(&v))
		all = append(all, fmt.Sprintf("%s %v", v.GetLabel()[0].GetValue(), v.GetGauge().GetValue()))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// Another process reads logs from the terminal server with a token that works once, and trusts it by its key.
func TestLogsOverAnotherProcess(t *testing.T) {
	t.Parallel()
	i := setup(t)
	key, err := i.server.Key()
	must(t, err)
	api := &logstream.Service{DB: pgtest.Scoped(t, i.db)}
	remote := &logs.Remote{Running: (&terminal.Service{DB: pgtest.Scoped(t, i.db)}).Running}
	ctx := pg.WithScope(t.Context(), pg.Platform)
	if err := remote.Check(ctx); errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("without a terminal server: %v", err)
	}
	_, err = i.db.Exec(t.Context(), `INSERT INTO terminal_instances (id, address, key) VALUES (gen_random_uuid(), $1, $2)`, i.server.Address, key)
	must(t, err)
	must(t, remote.Check(ctx))
	ticket := func() logstream.Ticket {
		t.Helper()
		made, err := api.Create(ctx, logstream.Request{
			Caller: identity.Caller{User: ids.New[ids.User]()}, Node: i.node, Query: protocol.LogQuery{Source: protocol.LogHelper, Tail: 10},
		})
		must(t, err)
		return made
	}
	one := ticket()
	var opened, rejected atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			lines, err := remote.Open(ctx, one.Token)
			switch {
			case err == nil:
				opened.Add(1)
				var text string
				if err := protocol.ReadLog(lines, func(item protocol.LogItem) error { text += item.Text + item.End; return nil }); err != nil || !strings.Contains(text, "started") || !strings.HasSuffix(text, "complete") {
					t.Errorf("%q %v", text, err)
				}
				_ = lines.Close()
			case errs.CodeOf(err) == errs.Unavailable:
				rejected.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if opened.Load() != 1 || rejected.Load() != 19 {
		t.Errorf("%d streams of one token, %d rejected", opened.Load(), rejected.Load())
	}
	must(t, api.End(ctx, one.ID))
	late := ticket()
	_, err = i.db.Exec(t.Context(), `UPDATE log_streams SET seen_at = now() - interval '16 s'`)
	must(t, err)
	if _, err := remote.Open(ctx, late.Token); errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("a late token: %v", err)
	}
	// A process at the same address with another key receives no token.
	_, err = i.db.Exec(t.Context(), `UPDATE terminal_instances SET key = $1`, strings.Repeat("0", 64))
	must(t, err)
	if _, err := remote.Open(ctx, ticket().Token); errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("another key: %v", err)
	}
}

// The path for other servers opens nothing without a token.
func TestLogsNeedAToken(t *testing.T) {
	t.Parallel()
	i := setup(t)
	for _, header := range []string{"", "Basic abc", "Bearer ", "Bearer gpt_" + strings.Repeat("a", 43)} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/internal/v1/logs", nil)
		must(t, err)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := &recorder{header: http.Header{}}
		i.logs.ServeHTTP(w, r)
		if w.status != http.StatusNotFound && w.status != http.StatusUnauthorized {
			t.Errorf("%q: %d", header, w.status)
		}
	}
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header              { return r.header }
func (r *recorder) WriteHeader(status int)           { r.status = status }
func (r *recorder) Write(p []byte) (int, error)      { return len(p), nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }
