//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/e2e/check"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// INV-63: the database is restored to a time before one allocation was made and another one was released. No allocation on a node ends by
// it, and after the confirmation the installation works.
func TestINV63ARestoredInstallationDestroysNothing(t *testing.T) {
	t.Parallel()
	h := newInstallation(t, "--agents=processes")
	h.start()
	stays, ends := h.create(t, "t4", 1), h.create(t, "t4", 1)
	h.becomes(t, stays, "active")
	h.becomes(t, ends, "active")
	h.stop()
	postgres, backup := filepath.Join(h.data(), "postgres"), h.path("backup")
	copyDir(t, postgres, backup)
	at := time.Now().UTC()

	h.start()
	lost := h.create(t, "t4", 1)
	h.becomes(t, lost, "active")
	h.release(t, ends)
	h.becomes(t, ends, "released")
	logins := h.logins(stays, lost)
	h.stop()
	must(t, os.RemoveAll(postgres))
	copyDir(t, backup, postgres)
	h.markRestored(at)
	h.start()

	var nothing map[string]any
	if status, err := h.call("POST", "/api/v1/allocations", "closed", map[string]any{"sku": "t4", "gpus": 1, "name": "closed"}, &nothing); status != http.StatusServiceUnavailable {
		t.Errorf("a request before the confirmation: %d, %v", status, err)
	}
	until(t, patience, "each node reports, and the differences are those of the lost time", func() error {
		time.Sleep(commandPause)
		return h.differs(map[string]string{"unknown_allocation": lost.ID, "released_on_node": ends.ID})
	})
	if got := h.cli("restore", "confirm", "--yes"); got.code != 0 {
		t.Fatalf("confirm: exit %d\n%s\n%s", got.code, got.out, got.err)
	}
	h.becomes(t, ends, "released")
	h.becomes(t, stays, "active")
	next := h.create(t, "h100-sxm", 1)
	h.becomes(t, next, "active")
	logins = append(logins, h.logins(next)...)
	until(t, patience, "the nodes have exactly these allocations", func() error {
		found, err := check.Nodes(h.agents(), logins)
		for _, f := range found {
			err = errors.Join(err, fmt.Errorf("%v", f))
		}
		return err
	})
	if h.over() {
		t.Error("the server has ended")
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-pR", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copying %s: %v: %s", from, err, out)
	}
}

// logins returns the accounts of allocations on their nodes.
func (h *installation) logins(of ...allocation) (logins []string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	db, err := h.sql(ctx)
	must(h.t, err)
	defer db.Close(ctx)
	var ids []string
	for _, a := range of {
		ids = append(ids, a.ID)
	}
	must(h.t, db.QueryRow(ctx, `SELECT array_agg(login) FROM allocations WHERE id = ANY($1::uuid[])`, ids).Scan(&logins))
	return logins
}

// markRestored runs the command of the operator while PostgreSQL runs without a server.
func (h *installation) markRestored(at time.Time) {
	h.t.Helper()
	cluster, err := pgcluster.Start(context.Background(), pgcluster.Config{Dir: filepath.Join(h.data(), "postgres"), Durable: true})
	must(h.t, err)
	cmd := exec.Command(filepath.Join(bins, "gpuaas"), "restore", "begin", "--at", at.Format(time.RFC3339Nano))
	cmd.Dir, cmd.Env = h.repo, h.own("DATABASE_URL="+cluster.URL())
	got := finish(h.t, cmd)
	must(h.t, cluster.Stop(pgcluster.Fast))
	if got.code != 0 {
		h.t.Fatalf("begin: exit %d\n%s\n%s", got.code, got.out, got.err)
	}
}

// differs returns an error unless the differences have exactly these kinds, each with its allocation, and no node is missing.
func (h *installation) differs(want map[string]string) error {
	got := h.cli("restore", "status", "-o", "json")
	var st struct {
		Nodes []struct {
			Name       string
			ReportedAt *time.Time `json:"reported_at"`
		}
		Differences []struct {
			Kind       string
			Allocation string `json:"allocation_id"`
		}
	}
	if err := json.Unmarshal([]byte(got.out), &st); err != nil {
		return fmt.Errorf("%w: %s", err, got.err)
	}
	for _, n := range st.Nodes {
		if n.ReportedAt == nil {
			return fmt.Errorf("%s has not reported", n.Name)
		}
	}
	if len(st.Nodes) == 0 || len(st.Differences) != len(want) {
		return fmt.Errorf("%d nodes, differences %+v", len(st.Nodes), st.Differences)
	}
	for _, d := range st.Differences {
		if want[d.Kind] != d.Allocation {
			return errors.New(strings.Join([]string{"not expected:", d.Kind, d.Allocation}, " "))
		}
	}
	return nil
}
