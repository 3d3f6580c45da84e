package jobs_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/protocol"
)

// rolling is a fleet of ten that is to become v2.0.0, a fifth of it first.
type rolling struct {
	*bundle

	nodes []ids.Node
	keys  secret.LocalSigner
}

func setupRolling(t *testing.T) *rolling {
	t.Helper()
	r := &rolling{bundle: setup(t)}
	var err error
	if r.keys, err = secret.OpenSigner(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	r.deps.Releases = &agentrelease.Store{DB: r.DB, Keys: r.keys.Public, Naming: ids.DefaultNaming}
	r.nodes = []ids.Node{r.node}
	for i := range 9 {
		r.nodes = append(r.nodes, r.Node(t, fmt.Sprint("more-", i), 1))
	}
	for _, n := range r.nodes {
		r.runs(n, "v1.0.0")
	}
	r.publish("v2.0.0")
	r.set(policies.Platform, "node.update_ring_percent", 20)
	r.set(policies.Platform, "node.agent_version", "v2.0.0")
	return r
}

func (r *rolling) publish(version string) {
	r.t.Helper()
	b := agentrelease.Build{Version: version, Platform: "linux/amd64", Digest: strings.Repeat("ab", 32), Size: 7, Minimum: "v1.0.0"}
	signed, err := agentrelease.Sign(r.t.Context(), r.keys, b, clock.Clock{}.Now())
	if err == nil {
		_, err = r.deps.Releases.Publish(r.t.Context(), signed, audit.By{Actor: "system:server"})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rolling) set(scope policies.Scope, key string, value any) {
	r.t.Helper()
	r.Do(r.t, func(tx pgx.Tx) error {
		return r.deps.Policies.Set(r.t.Context(), tx, policies.Applied{Key: key, Scope: scope, Subject: scope, Value: value, Source: "user:x", Object: ids.New[ids.Object]()})
	})
	if _, err := r.deps.Policies.Refresh(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// runs has a node report which build it runs.
func (r *rolling) runs(node ids.Node, version string) {
	r.t.Helper()
	r.Do(r.t, func(tx pgx.Tx) error {
		report := allocationtest.Report(node, 1)
		report.Agent, report.Platform = version, "linux/amd64"
		return r.Inventory.ApplyAgent(r.t.Context(), tx, node, report)
	})
}

// fetched returns the pending task of a node.
func (r *rolling) fetched(node ids.Node) (e protocol.Envelope, ok bool) {
	r.t.Helper()
	taken, err := r.deps.Tasks.Next(r.t.Context(), node)
	if err != nil {
		r.t.Fatal(err)
	}
	signed, ok := taken[node]
	if !ok {
		return e, false
	}
	if e, err = protocol.Open(signed, r.deps.Tasks.Signer.(secret.Signer).Public()); err != nil {
		r.t.Fatal(err)
	}
	p, err := protocol.ParamsOf[protocol.AgentUpdateParams](e)
	if err != nil {
		r.t.Fatalf("the node rejects it: %v", err)
	}
	if _, err := protocol.OpenRelease(p.Metadata, p.Signature, r.keys.Public()); err != nil {
		r.t.Fatalf("the node rejects the version: %v", err)
	}
	return e, true
}

// become makes every node with a task execute it and returns their number.
func (r *rolling) become(outcome protocol.Outcome, code protocol.RejectReason) (n int) {
	r.t.Helper()
	for _, node := range r.nodes {
		e, ok := r.fetched(node)
		if !ok {
			continue
		}
		n++
		r.Do(r.t, func(tx pgx.Tx) error {
			_, err := r.deps.Tasks.Finish(r.t.Context(), tx, node, protocol.Result{Task: e.Task, Fence: e.Fence, Attempt: e.Attempt, Outcome: outcome, Code: code, Message: "not heard of"})
			return err
		})
		if outcome == protocol.Succeeded {
			r.runs(node, "v2.0.0")
		}
	}
	return n
}

func (r *rolling) later(d time.Duration) {
	r.t.Helper()
	r.exec(`UPDATE agent_updates SET updated_at = updated_at - $1::interval, deadline_at = deadline_at - $1::interval`, d)
}

func (r *rolling) rollout() agentrelease.Rollout {
	r.t.Helper()
	list, err := r.deps.Releases.Rollouts(r.t.Context(), r.DB)
	if err != nil || len(list) != 1 {
		r.t.Fatalf("%+v, %v", list, err)
	}
	return list[0]
}

// Ring for ring, each after the one before has proved itself.
func TestRollsInRings(t *testing.T) {
	t.Parallel()
	r := setupRolling(t)
	for _, ring := range []int{2, 4, 4} {
		r.done(jobs.RollAgents{})
		if n := r.become(protocol.Succeeded, ""); n != ring {
			t.Fatalf("%d are updated, want %d: %+v", n, ring, r.rollout())
		}
		r.done(jobs.RollAgents{}) // they are healthy
		r.done(jobs.RollAgents{})
		if n := r.become(protocol.Succeeded, ""); n != 0 {
			t.Fatalf("%d more are updated before the ring was proved", n)
		}
		r.later(2 * time.Minute)
	}
	r.nothing("every node has it", jobs.RollAgents{})
	if got := r.rollout(); got.Status != "done" || got.Has != 10 || r.count(`SELECT count(*) FROM agent_updates WHERE status = 'healthy'`) != 10 {
		t.Errorf("%+v", got)
	}
	if n := r.count(`SELECT count(DISTINCT (node_id, fence)) FROM node_tasks WHERE type = 'node.agent_update' AND fence > 0`); n != 10 {
		t.Errorf("%d tasks with a fence of their own", n)
	}
}

// INV-49: a version from which nodes roll back stops, is reported once, and continues after an
// operator resumes it.
func TestINV49Stops(t *testing.T) {
	t.Parallel()
	r := setupRolling(t)
	r.done(jobs.RollAgents{})
	if n := r.become(protocol.Failed, protocol.RolledBack); n != 2 {
		t.Fatalf("%d are updated", n)
	}
	for range 3 {
		r.done(jobs.RollAgents{})
		r.later(time.Hour)
	}
	if got := r.rollout(); got.Status != "stopped" || got.Lost != 2 || !strings.Contains(got.Message, "2 of 2 nodes of ring 0 were lost: not heard of") {
		t.Errorf("%+v", got)
	}
	if n := r.count(`SELECT count(*) FROM outbox_events WHERE subject = 'fleet.agent_update_stopped'`); n != 1 {
		t.Errorf("reported %d times", n)
	}
	if n := r.become(protocol.Succeeded, ""); n != 0 {
		t.Fatalf("%d are updated to a version that was stopped", n)
	}
	if err := r.deps.Releases.Retry(t.Context(), "v2.0.0", audit.By{Actor: "user:x"}); err != nil {
		t.Fatal(err)
	}
	r.done(jobs.RollAgents{})
	if n := r.become(protocol.Succeeded, ""); n != 2 || r.rollout().Status != "rolling" {
		t.Errorf("%d are updated again: %+v", n, r.rollout())
	}
}

// Eight workers at once update one ring.
func TestRollsOnce(t *testing.T) {
	t.Parallel()
	r := setupRolling(t)
	var updated atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := pgx.BeginFunc(t.Context(), r.DB, func(tx pgx.Tx) error {
				n, err := r.deps.Roll(t.Context(), tx)
				updated.Add(int64(n))
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := r.count(`SELECT count(*) FROM node_tasks WHERE type = 'node.agent_update'`); updated.Load() != 2 || n != 2 {
		t.Errorf("%d are updated, %d tasks", updated.Load(), n)
	}
}

// Pending updates to a replaced version are cancelled on nodes that have not fetched them, and only
// on those.
func TestRollCallsOff(t *testing.T) {
	t.Parallel()
	r := setupRolling(t)
	r.done(jobs.RollAgents{})
	var has ids.Node
	for _, node := range r.nodes {
		if _, ok := r.fetched(node); ok {
			has = node
			break
		}
	}
	r.set(policies.Platform, "node.agent_version", "")
	r.done(jobs.RollAgents{})
	if n := r.count(`SELECT count(*) FROM node_tasks WHERE type = 'node.agent_update' AND status = 'superseded'`); n != 1 {
		t.Errorf("%d tasks were cancelled", n)
	}
	if n := r.count(`SELECT count(*) FROM agent_updates WHERE node_id = $1 AND status = 'running'`, has); n != 1 {
		t.Errorf("the node that has its task is not followed")
	}
	if n := r.count(`SELECT count(*) FROM agent_rollouts`); n != 0 {
		t.Errorf("%d rollouts of a replaced version", n)
	}
}

// One node may have its own version. A version that was not published is reported, and no task is
// queued.
func TestRollOneNode(t *testing.T) {
	t.Parallel()
	r := setupRolling(t)
	r.set(policies.Platform, "node.agent_version", "")
	r.set(policies.In(policies.LevelNode, "more-3"), "node.agent_version", "v3.0.0")
	r.done(jobs.RollAgents{})
	if got := r.rollout(); got.Status != "blocked" || !strings.Contains(got.Message, "release v3.0.0 is not published for linux/amd64") {
		t.Errorf("%+v", got)
	}
	r.set(policies.In(policies.LevelNode, "more-3"), "node.agent_version", "v2.0.0")
	r.done(jobs.RollAgents{})
	if n := r.become(protocol.Succeeded, ""); n != 1 {
		t.Errorf("%d are updated", n)
	}
}

// A task that no node fetched in time does not count: another is updated.
func TestRollLapses(t *testing.T) {
	t.Parallel()
	r := setupRolling(t)
	r.done(jobs.RollAgents{})
	r.exec(`UPDATE node_tasks SET expires_at = now() - interval '1 second' WHERE type = 'node.agent_update'`)
	r.done(jobs.RollAgents{})
	if n := r.count(`SELECT count(*) FROM node_tasks WHERE type = 'node.agent_update' AND status = 'queued' AND expires_at > now()`); n != 2 {
		t.Errorf("%d are queued again", n)
	}
	if got := r.rollout(); got.Lost != 0 || got.Going != 2 {
		t.Errorf("%+v", got)
	}
}
