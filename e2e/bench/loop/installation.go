package loop

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/agent/client"
	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/terminal/relayrequest"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/services"
)

// installation runs the loop, the workers and the node API in one process, as `gpuaas up` does, with one
// agent that only receives its tasks.
type installation struct {
	pools       []*pgxpool.Pool // of api, node, reconcile, work, and the owner's
	owner       *pgxpool.Pool
	hints       *hint.Bus
	allocations *allocation.Service
	inventory   *nodehealth.Service
	jobs        *river.Client[pgx.Tx]
	authority   *pki.Local
	server      *nodeapi.Server
	received    *arrivals

	stop    context.CancelFunc
	running sync.WaitGroup
	stopped sync.Once
}

// window is the charging window. Nothing is charged here, so it is long.
const window = time.Hour

func newInstallation(ctx context.Context, l *lab.Lab, url string, slots int) (*installation, error) {
	m := lab.Market{Tenants: 16, Nodes: 1, SlotsPerNode: slots + 8}
	if err := m.Open(ctx, l, url); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &installation{hints: &hint.Bus{}, received: newArrivals(), stop: stop}
	if err := h.start(ctx, l, url); err != nil {
		h.close(ctx)
		return nil, err
	}
	if err := h.live(ctx, running, l); err != nil {
		h.close(ctx)
		return nil, err
	}
	lab.Rest(ctx, l)
	return h, nil
}

func (h *installation) start(ctx context.Context, l *lab.Lab, url string) (err error) {
	pool := func(role string, size int32) (p *pgxpool.Pool) {
		if err == nil {
			p, err = lab.OpenAs(ctx, url, role, size)
			h.pools = append(h.pools, p)
		}
		return p
	}
	door, node, _, work := pool("api", lab.ApiConns), pool("node", lab.NodeConns), pool("reconcile", lab.LoopConns), pool("work", lab.WorkConns)
	if h.owner, err = pg.Open(ctx, url, "bench", lab.NodeConns); err != nil {
		return err
	}
	h.pools = append(h.pools, h.owner)
	api := pg.Scoped{Pool: door}
	c, secrets := clock.Clock{}, filepath.Join(l.Dir, "secrets")
	if h.authority, err = pki.Open(filepath.Join(secrets, "ca"), c); err != nil {
		return err
	}
	keys, err := secret.OpenSigner(filepath.Join(secrets, "keys"))
	if err != nil {
		return err
	}
	trusted, err := secrettest.NewTrusted(keys, filepath.Join(secrets, "statement-keys"))
	if err != nil {
		return err
	}
	of := map[pg.Pool]*services.Services{}
	for _, db := range []pg.Pool{api, work, node} {
		if of[db], err = lab.Services(db, h.hints, l.Logger); err != nil {
			return err
		}
	}
	h.allocations, h.inventory = of[api].Allocations, of[node].NodeHealth
	seen := &observed.Store{DB: node}
	tasks := &nodetask.Store{DB: node, Signer: keys, Hints: h.hints, Clock: c}
	certificates := &secret.Certificates{DB: node}
	policy := jobs.PolicyFrom(of[work].Policies)
	policy.Window, policy.ObservationStale = func() time.Duration { return window }, func() time.Duration { return window }
	h.jobs, err = jobs.NewClient(work, &jobs.Deps{
		Services: of[work], Policy: policy,
		Tasks: &nodetask.Store{DB: work, Signer: keys, Hints: h.hints, Clock: c}, Log: l.Logger,
	}, l.Logger)
	if err != nil {
		return err
	}
	in := &nodeapi.Intake{
		DB: node, Tasks: tasks, Observed: seen, Inventory: h.inventory, Certificates: certificates, Hints: h.hints, Clock: c,
		StaleAfter: func(ids.Node) time.Duration { return window },
	}
	h.server = &nodeapi.Server{
		TrustDomain: "gpuaas.bench", Hosts: []string{"127.0.0.1"}, CA: h.authority, Statements: trusted.Statements, Trusted: trusted, Nodes: in, Tasks: in, Reports: in,
		Relays: relayrequest.Store{DB: node}, Hints: h.hints, Log: l.Logger, Clock: c,
	}
	return nil
}

// live starts the components and enrols the agent.
func (h *installation) live(ctx, running context.Context, l *lab.Lab) error {
	loop := &reconciler.Loop{DB: h.pools[2], Jobs: h.jobs, Desired: &desired.Store{DB: h.pools[2], Hints: h.hints}, Hints: h.hints, Limits: lab.Limits, Log: l.Logger}
	h.running.Go(func() { _ = loop.Run(running) }) // ends with its context
	if err := h.jobs.Start(running); err != nil {
		return fmt.Errorf("starting the workers: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the node API: %w", err)
	}
	h.running.Go(func() { _ = h.server.Serve(running, listener) }) // likewise
	node := onlyNode()
	agent, err := h.enrol(ctx, "https://"+listener.Addr().String(), node)
	if err != nil {
		return err
	}
	h.running.Go(func() { h.finish(running, agent, node) })
	return nil
}

func onlyNode() ids.Node {
	return ids.From[ids.Node](uuid.MustParse(lab.NodePrefix + fmt.Sprint(int64(lab.First))))
}

// enrol requests a certificate for a node in the same way as every node does.
func (h *installation) enrol(ctx context.Context, url string, node ids.Node) (*client.Client, error) {
	var token string
	err := pgx.BeginFunc(ctx, h.owner, func(tx pgx.Tx) (err error) {
		token, _, err = h.inventory.EnrolmentToken(ctx, tx, node)
		return err
	})
	if err != nil {
		return nil, err
	}
	config, err := pki.ClientTLS(h.authority.Bundle(), nil, clock.Clock{})
	if err != nil {
		return nil, err
	}
	stranger, err := client.New(url, config)
	if err != nil {
		return nil, err
	}
	defer stranger.Release()
	key, csr, err := enrol.NewKey()
	if err != nil {
		return nil, err
	}
	reply, err := stranger.Enrol(ctx, protocol.EnrolRequest{Token: token, CSR: csr, Hostname: "bench", Capability: protocol.Capability})
	if err != nil {
		return nil, fmt.Errorf("enrolling: %w", err)
	}
	who, err := enrol.From(reply, key, enrol.Identity{})
	if err != nil {
		return nil, err
	}
	pair := func() (*tls.Certificate, error) { return who.Pair(), nil }
	if config, err = pki.ClientTLS([]byte(who.Trust.CAs), pair, clock.Clock{}); err != nil {
		return nil, err
	}
	return client.New(url, config)
}

// finishTask completes a task as if its node had reported it, and deletes the allocation without
// another task, so that the loop sends no task twice.
const finishTask = `
	WITH t AS (UPDATE node_tasks SET status = 'succeeded', finished_at = now() WHERE allocation_id = $1),
		d AS (DELETE FROM reconcile_due WHERE object_id = $1)
	DELETE FROM desired_objects WHERE uid = $1`

// finish polls for tasks and records the time at which each arrives.
func (h *installation) finish(ctx context.Context, agent *client.Client, node ids.Node) {
	defer agent.Release()
	for ctx.Err() == nil {
		delivery, err := agent.Wait(ctx, node)
		for _, request := range delivery.Relays {
			h.received.arrived(string(request.Body))
		}
		if err != nil || !delivery.HasTask() {
			continue
		}
		a, err := lab.AllocationOf(delivery.Signed)
		if err != nil {
			continue
		}
		h.received.arrived(a.String())
		h.running.Go(func() { _, _ = h.owner.Exec(ctx, finishTask, a) }) // an unfinished task would be delivered again
	}
}

// declare puts one allocation and returns after the commit.
func (h *installation) declare(ctx context.Context, i int) (key string, committed time.Time, err error) {
	n := fmt.Sprint(int64(lab.First) + int64(i%16))
	caller := identity.Caller{
		User: ids.From[ids.User](uuid.MustParse(lab.UserPrefix + n)), Tenant: ids.From[ids.Tenant](uuid.MustParse(lab.TenantPrefix + n)),
		Project: ids.From[ids.Project](uuid.MustParse(lab.ProjectPrefix + n)), TenantName: "t", Role: "user", ProjectRole: "admin",
	}
	scoped := pg.WithScope(ctx, pg.Scope{Tenant: lab.TenantPrefix + n, Principal: lab.UserPrefix + n})
	a, err := h.allocations.Request(scoped, allocation.Request{Caller: caller, SKU: lab.Sku, GPUs: 1})
	return a.ID.String(), clock.Clock{}.Now(), err
}

func (h *installation) close(ctx context.Context) {
	h.stopped.Do(func() {
		h.stop()
		if h.jobs != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.Patience)
			_ = h.jobs.StopAndCancel(ctx)
			cancel()
		}
		h.running.Wait()
		for _, p := range h.pools {
			if p != nil {
				p.Close()
			}
		}
	})
}
