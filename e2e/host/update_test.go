//go:build e2e

package host

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/e2e/rig"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/product/agentrelease/rollout"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/services"
)

// fleet is a control plane that updates one node, and the booted container of that node.
type fleet struct {
	t        *testing.T
	host     *rig.Container
	db       *pgxpool.Pool
	node     ids.Node
	releases *agentrelease.Store
	builders secret.LocalSigner
	files    agentrelease.Files
	policies *policies.Client
	client   *river.Client[pgx.Tx]
	dir      string
}

const theNode = "n1"

func newFleet(t *testing.T) *fleet {
	t.Helper()
	rig.Needed(t)
	f := &fleet{t: t, db: pgtest.Clone(t), node: ids.New[ids.Node](), dir: t.TempDir()}
	f.host = rig.New(t, rig.Options{Hostname: theNode, Profile: "l40s-4"})
	quiet, hints, c := slog.New(slog.DiscardHandler), &hint.Bus{}, clock.Clock{}
	authority, err := pki.Open(filepath.Join(f.dir, "ca"), c)
	ok(t, err)
	keys, err := secret.OpenSigner(filepath.Join(f.dir, "keys"))
	ok(t, err)
	builders, err := secret.OpenSigner(filepath.Join(f.dir, "release-keys"))
	ok(t, err)
	f.files = agentrelease.Files{Dir: filepath.Join(f.dir, "agents")}
	f.builders = builders
	f.releases = &agentrelease.Store{DB: f.db, Keys: builders.Public, Naming: ids.DefaultNaming, Clock: c}
	trusted, err := secrettest.NewTrusted(keys, filepath.Join(f.dir, "statement-keys"))
	ok(t, err)
	releaseKeys, err := agentrelease.SignKeys(t.Context(), builders, builders.Public(), 1, c.Now())
	ok(t, err)
	trusted.ReleaseSets = []protocol.Signed{releaseKeys}
	f.policies = &policies.Client{DB: f.db, Hints: hints, Log: quiet}
	tasks, slots := &nodetask.Store{DB: f.db, Signer: keys, Hints: hints, Clock: c}, nodehealth.New(f.db, hints)
	in := &nodeapi.Intake{
		DB: f.db, Tasks: tasks, Observed: &observed.Store{DB: f.db}, Inventory: slots, Certificates: &secret.Certificates{DB: f.db},
		Hints: hints, Clock: c, StaleAfter: func(ids.Node) time.Duration { return 10 * time.Second },
	}
	door := &nodeapi.Server{
		TrustDomain: "gpuaas.test", Hosts: []string{f.host.Gateway()}, CA: authority, Statements: trusted.Statements, Trusted: trusted, Nodes: in, Tasks: in, Reports: in, Hints: hints, Log: quiet, Clock: c,
		Builds: f.files, Binaries: &nodeapi.Binaries{}, ReportEvery: func(ids.Node) time.Duration { return 2 * time.Second },
	}
	l, err := net.Listen("tcp", net.JoinHostPort(f.host.Gateway(), "0"))
	ok(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan struct{})
	go func() { defer close(served); _ = door.Serve(ctx, l) }()
	t.Cleanup(func() { stop(); <-served })

	f.client, err = river.NewClient(riverpgxv5.New(f.db), &river.Config{
		Schema: migrations.RiverSchema, Logger: quiet, FetchPollInterval: 200 * time.Millisecond, TestOnly: true, Queues: map[string]river.QueueConfig{"maintenance": {MaxWorkers: 1}},
		Workers: jobs.Workers(&jobs.Deps{
			Services: &services.Services{DB: f.db, Releases: f.releases, NodeHealth: slots, Policies: f.policies, Hints: hints}, Tasks: tasks, Log: quiet,
		}),
	})
	ok(t, err)
	ok(t, f.client.Start(ctx))
	t.Cleanup(func() { <-f.client.Stopped() })
	t.Cleanup(stop)
	_, err = f.db.Exec(t.Context(), allWell)
	ok(t, err)
	f.enrol(slots, "https://"+l.Addr().String(), pki.BundleFingerprints(authority.Bundle())[0])
	return f
}

// allWell ignores the health of the computer that runs the tests, such as its full disk and its
// clock. An unhealthy node would not be updated.
const allWell = `
	CREATE FUNCTION well() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.health := 'healthy'; RETURN NEW; END $$;
	CREATE FUNCTION unheld() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
	CREATE TRIGGER well BEFORE UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION well();
	CREATE TRIGGER unheld BEFORE INSERT ON holds FOR EACH ROW EXECUTE FUNCTION unheld();`

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// enrol enrols the node in the same way as an operator does.
func (f *fleet) enrol(slots *nodehealth.Service, url, fingerprint string) {
	f.t.Helper()
	var token string
	ok(f.t, pgx.BeginFunc(f.t.Context(), f.db, func(tx pgx.Tx) (err error) {
		if err := slots.Declare(f.t.Context(), tx, f.node, theNode, []byte(`{"sku": "l40s", "region": "r1", "onboarding": "manual", "gpus": 4}`)); err != nil {
			return err
		}
		token, _, err = slots.EnrolmentToken(f.t.Context(), tx, f.node)
		return err
	}))
	path := filepath.Join(f.dir, "first")
	ok(f.t, rig.Build(path, "github.com/gpuaas/gpuaas/cmd/gpuaas-agent", says("v1.0.0")))
	ok(f.t, f.host.CopyIn(f.t.Context(), path, "/root/gpuaas-agent"))
	f.t.Log(f.host.Sh(f.t, `echo "$1" | /root/gpuaas-agent install -server "$2" -ca-fingerprint "$3" 2>&1`, token, url, fingerprint))
}

func says(version string) string {
	return "-ldflags=-s -w -X github.com/gpuaas/gpuaas/internal/version.Version=" + version
}

// publish builds and publishes an agent release and lets nodes install it.
func (f *fleet) publish(version, pkg, flags string) {
	f.t.Helper()
	path := filepath.Join(f.dir, version)
	ok(f.t, rig.Build(path, "github.com/gpuaas/gpuaas/"+pkg, flags))
	b, err := f.files.Put(path)
	ok(f.t, err)
	b.Version, b.Minimum = version, "v1.0.0"
	signed, err := agentrelease.Sign(f.t.Context(), f.builders, b, time.Now())
	ok(f.t, err)
	_, err = f.releases.Publish(f.t.Context(), signed, audit.By{Actor: "system:test"})
	ok(f.t, err)
}

func (f *fleet) want(version string) {
	f.t.Helper()
	ok(f.t, pgx.BeginFunc(f.t.Context(), f.db, func(tx pgx.Tx) error {
		return f.policies.Set(f.t.Context(), tx, policies.Applied{
			Key: "node.agent_version", Scope: policies.Platform, Subject: policies.Platform, Value: version, Source: "user:x", Object: ids.New[ids.Object](),
		})
	}))
	_, err := f.policies.Refresh(f.t.Context())
	ok(f.t, err)
}

// until runs the rollouts until the version has the state.
func (f *fleet) until(version string, state rollout.State, within time.Duration) agentrelease.Rollout {
	f.t.Helper()
	var last agentrelease.Rollout
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		_, err := f.client.Insert(f.t.Context(), jobs.RollAgents{}, nil)
		ok(f.t, err)
		list, err := f.releases.Rollouts(f.t.Context(), f.db)
		ok(f.t, err)
		for _, r := range list {
			if last = r; r.Version == version && r.Status == state {
				return r
			}
		}
	}
	var node string
	ok(f.t, f.db.QueryRow(f.t.Context(), `SELECT row_to_json(n)::text || (SELECT coalesce(json_agg(h)::text, '') FROM holds h) || (SELECT coalesce(json_agg(r)::text, '') FROM health_reports r)
		FROM (SELECT name, lifecycle, health, message, reachability, cordoned, agent_version, agent_platform, changed FROM nodes) AS n`).Scan(&node))
	f.t.Fatalf("%s is not %s within %s: %+v\n%s\n%s", version, state, within, last, node, f.host.Sh(f.t, `journalctl --no-pager -n 60 -u gpuaas-agent -u gpuaas-agent-helper -u gpuaas-agent-guard`))
	return last
}

// runs returns the version that the host OS starts and the folder of its binary.
func (f *fleet) runs() string {
	f.t.Helper()
	return f.host.Sh(f.t, `echo "$(readlink /usr/lib/gpuaas/current) $(/usr/bin/gpuaas-agent version | cut -d' ' -f2)"`)
}

// The tenant's process must survive all updates.
const tenant = `useradd -M -u 200001 t1 2>/dev/null; systemd-run --quiet --uid=t1 --slice=user-200001.slice --unit=work sleep 100000; pgrep -u t1`

// AGENT-30, INV-49: a good build stays; one that does not work, whichever way, is
// undone within a minute, and so is one that was being tried when power was lost.
func TestINV49UpdateOnAHost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	work := f.host.Sh(t, tenant)
	f.publish("v1.1.0", "cmd/gpuaas-agent", says("v1.1.0"))
	f.want("v1.1.0")
	f.until("v1.1.0", rollout.Done, 2*time.Minute)
	if got := f.runs(); got != "b v1.1.0," {
		t.Fatalf("runs %s", got)
	}
	for i, kind := range []string{"", "-X main.silent=yes"} {
		version := fmt.Sprintf("v1.2.%d", i)
		f.publish(version, "e2e/host/sick", "-ldflags=-X main.version="+version+" "+kind)
		began := time.Now()
		f.want(version)
		r := f.until(version, rollout.Stopped, 3*time.Minute)
		if got := f.runs(); got != "b v1.1.0," || !strings.Contains(r.Message, "no report of "+version+" was accepted within 45s") {
			t.Fatalf("runs %s: %+v", got, r)
		}
		took := f.host.Sh(t, `journalctl --no-pager -o short-unix -u gpuaas-agent-helper -u gpuaas-agent-guard | awk '/agent updates itself/ {s=$1} /goes back to the build before/ {e=$1} END {print int(e-s)}'`)
		t.Logf("%s: %s after the rollout started; from the swap until it was undone %s s: %s", version, time.Since(began), took, r.Message)
	}
	if got := f.host.Sh(t, `pgrep -u t1`); got != work {
		t.Errorf("the tenant's process was %s and is %s", work, got)
	}

	f.publish("v1.3.0", "e2e/host/sick", "-ldflags=-X main.version=v1.3.0")
	f.want("v1.3.0")
	f.swapped("v1.3.0")
	f.host.Kill()
	ok(t, f.host.Boot(t.Context()))
	f.until("v1.3.0", rollout.Stopped, 6*time.Minute)
	if got := f.runs(); got != "b v1.1.0," {
		t.Errorf("after power was lost: runs %s", got)
	}
}

// swapped returns after the link has changed.
func (f *fleet) swapped(version string) {
	f.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		_, err := f.client.Insert(f.t.Context(), jobs.RollAgents{}, nil)
		ok(f.t, err)
		if strings.HasSuffix(f.runs(), version+",") {
			return
		}
	}
	f.t.Fatalf("%s is never tried", version)
}
