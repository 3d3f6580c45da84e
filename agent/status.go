package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Status is the state of both processes as the network process reports it on the node.
type Status struct {
	Version          string           `json:"version"`
	Server           string           `json:"server"`
	Node             ids.Node         `json:"node_id"`
	CertificateUntil time.Time        `json:"certificate_until,omitzero"`
	Helper           *helper.Hello    `json:"helper,omitempty"`     // absent: not reached
	ReportedAt       time.Time        `json:"reported_at,omitzero"` // when a report was last accepted
	ReportError      string           `json:"report_error,omitempty"`
	Report           *protocol.Report `json:"report,omitempty"` // the last one
	Tasks            map[string]int   `json:"tasks"`            // ended since the start, by outcome
}

// statusRecord contains the data of Status. A node of a simulated fleet has none.
type statusRecord struct {
	mu         sync.Mutex
	reportedAt time.Time
	failed     string
	report     *protocol.Report
	tasks      map[string]int
	steps      map[string]stepTime
	last       map[ids.Task]time.Time // when the last step of a task ended
}

type stepTime struct {
	count int
	total time.Duration
}

func newStatusRecord() *statusRecord {
	return &statusRecord{tasks: map[string]int{}, steps: map[string]stepTime{}, last: map[ids.Task]time.Time{}}
}

func (s *statusRecord) reported(r protocol.Report, now time.Time, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = ""
	if err != nil {
		s.failed = err.Error()
	} else {
		s.reportedAt = now
	}
	if r.Boot != 0 {
		s.report = &r
	}
}

func (s *statusRecord) ended(r *protocol.Result) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[string(r.Outcome)]++
	delete(s.last, r.Task)
}

// begun starts the clock of the first step of a task.
func (s *statusRecord) begun(task ids.Task, now time.Time) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[task] = now
}

func (s *statusRecord) step(task ids.Task, step string, now time.Time) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if from, ok := s.last[task]; ok {
		t := s.steps[step]
		s.steps[step] = stepTime{t.count + 1, t.total + now.Sub(from)}
		s.last[task] = now
	}
}

// status puts the picture together.
func (n *node) status(hello *helper.Hello) Status {
	st := Status{Version: n.Version, Server: n.Server, Helper: hello, Tasks: map[string]int{}}
	if identity := n.identity.Load(); identity != nil {
		st.Node, st.CertificateUntil = identity.Node, identity.NotAfter()
	}
	n.record.mu.Lock()
	defer n.record.mu.Unlock()
	st.ReportedAt, st.ReportError, st.Report = n.record.reportedAt, n.record.failed, n.record.report
	maps.Copy(st.Tasks, n.record.tasks)
	return st
}

const (
	// PathStatus answers with a Status, PathPlan with what the helper would do,
	// PathMetrics with metrics for Prometheus.
	PathStatus, PathPlan, PathMetrics = "/status", "/plan", "/metrics"

	statusWithin = 30 * time.Second
)

// serveStatus serves local clients: on a socket, and on a loopback address if one is configured.
func (c Config) serveStatus(ctx context.Context, running *sync.WaitGroup, n *node, client *helper.Client) error {
	hello := func() *helper.Hello {
		if h, ok := client.Hello(); ok {
			return &h
		}
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathMetrics, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		writeMetrics(w, n.status(hello()), n.record)
	})
	private := http.NewServeMux()
	private.Handle("GET "+PathMetrics, mux)
	private.HandleFunc("GET "+PathStatus, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, n.status(hello())) })
	private.HandleFunc("GET "+PathPlan, func(w http.ResponseWriter, r *http.Request) {
		plans, err := client.Plan(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		writeJSON(w, plans)
	})
	if c.StatusSocket != "" {
		if err := os.Remove(c.StatusSocket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing old status socket: %w", err)
		}
		if err := c.serveOn(ctx, running, "unix", c.StatusSocket, private); err != nil {
			return err
		}
	}
	if c.Metrics == "" {
		return nil
	}
	// Metrics only: a user who may open a local port need not read the allocations.
	return c.serveOn(ctx, running, "tcp", c.Metrics, mux)
}

func (c Config) serveOn(ctx context.Context, running *sync.WaitGroup, network, address string, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if err != nil {
		return fmt.Errorf("listening for status: %w", err)
	}
	server := &http.Server{Handler: h, ReadTimeout: statusWithin, WriteTimeout: statusWithin, MaxHeaderBytes: 4 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	running.Go(func() {
		defer stop()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.Log.ErrorContext(ctx, "status not served any more", "err", err)
		}
	})
	return nil
}

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client may have gone
}
