//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/e2e/check"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/internal/profile"
)

// bus is a NATS server in a separate process, at one address across restarts.
type bus struct {
	t    *testing.T
	dir  string
	port int
	cmd  *exec.Cmd
	over chan struct{}
}

func (b *bus) start() {
	b.t.Helper()
	b.cmd = exec.Command(filepath.Join(bins, "natsd"), "-dir", b.dir, "-port", strconv.Itoa(b.port))
	out, err := b.cmd.StdoutPipe()
	must(b.t, err)
	b.over = launch(b.t, b.cmd)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.t.Fatalf("natsd printed %q: %v", line, err)
	}
}

func (b *bus) kill() {
	_ = b.cmd.Process.Kill()
	<-b.over
}

// freePort returns a port below those that the system gives to connections: a connection of another test could have
// such a port when the process listens again.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(10_000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			must(t, l.Close())
			return port
		}
	}
	t.Fatal("no port between 20000 and 30000 is free")
	return 0
}

// TestNATSAway runs a server against an external database and NATS. It stops NATS before, during and
// after an allocation, and requires that the allocation proceeds and that every event arrives
// afterwards, in order.
func TestNATSAway(t *testing.T) {
	t.Parallel()
	h := newInstallation(t, "--agents=processes")
	h.start() // makes tenant, keys, certificates and nodes
	scenario(t, h)
	h.converges(t, patience, check.Expect{})
	h.stop()

	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: filepath.Join(h.data(), "postgres"), Durable: true})
	must(t, err)
	t.Cleanup(func() { _ = cluster.Stop(pgcluster.Immediate) })
	b := &bus{t: t, dir: h.path("bus"), port: freePort(t)}
	api, node := h.serve(t, cluster.URL(), fmt.Sprintf("nats://127.0.0.1:%d", b.port))
	h.agent(t, "gpu-t4-01", node)
	p, err := h.profile("default")
	must(t, err)
	p.URL = api
	must(t, (profile.Store{Path: filepath.Join(h.path("config"), "config.yaml")}).Write("default", p))
	h.ended = make(chan struct{}) // the server is not started again
	t.Cleanup(func() { h.up = nil })

	scenario(t, h) // before NATS ever was
	b.start()
	h.published(t, b)
	a := h.create(t, "t4", 1)
	b.kill() // in the middle
	h.becomes(t, a, "active")
	b.start()
	h.release(t, a)
	b.kill()
	h.becomes(t, a, "released")
	for range 3 {
		scenario(t, h)
	}
	b.start()
	h.published(t, b)
	must(t, b.cmd.Process.Signal(syscall.SIGSTOP)) // it accepts connections and answers nothing
	scenario(t, h)
	b.kill()
	b.start()
	h.published(t, b)
	scenario(t, h)
	b.kill() // right after
	b.start()
	h.published(t, b)
	b.kill()
	h.converges(t, patience, check.Expect{Rested: true})
}

// serve runs a server with every role.
func (h *installation) serve(t *testing.T, database, nats string) (api, node string) {
	t.Helper()
	api, node = fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	h.run(t, h.own("DATABASE_URL="+database, "NATS_URL="+nats), "gpuaas", "server", "--repository", h.repo, "--listen", api, "--node-listen", node, "--relay-listen", "127.0.0.1:0",
		"--metrics-listen", "127.0.0.1:0", "--state-dir", filepath.Join(h.data(), "secrets"))
	h.ready(t, "http://"+api)
	return "http://" + api, "https://" + node
}

// ready waits until a server accepts requests.
func (h *installation) ready(t *testing.T, address string) {
	t.Helper()
	if !until(t, patience, "the server answers", func() error {
		reply, err := caller.Get(address + "/readyz")
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		if reply.StatusCode != 200 {
			return fmt.Errorf("readyz: %d", reply.StatusCode)
		}
		return nil
	}) {
		t.Fatalf("no server:\n%s", tail(h.path("server.log"), 20))
	}
}

func (h *installation) agent(t *testing.T, name, node string) {
	t.Helper()
	dir := filepath.Join(h.agents(), name)
	h.run(t, h.own(), "gpuaas-agent", "run", "--server", node, "--state-dir", dir, "--driver", "sim", "--profile", "t4-4", "--hostname", name,
		"--ca-file", filepath.Join(dir, "ca.pem"))
}

// run starts a process. The test ends with its kill.
func (h *installation) run(t *testing.T, env []string, binary string, args ...string) (kill func()) {
	t.Helper()
	log, err := os.OpenFile(h.path("server.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer log.Close()
	cmd := exec.Command(filepath.Join(bins, binary), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.repo, env, log, log
	ended := launch(t, cmd)
	kill = sync.OnceFunc(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("the end of the log:\n%s", tail(h.path("server.log"), 15))
		}
	})
	return kill
}

// published waits until the streams contain the events of the outbox.
func (h *installation) published(t *testing.T, b *bus) {
	t.Helper()
	until(t, patience, "all facts are published", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var db *pgx.Conn
		db, err := h.sql(ctx)
		if err != nil {
			return err
		}
		defer db.Close(ctx)
		facts, err := check.Outbox(ctx, db)
		if err != nil {
			return err
		}
		nc, err := natsd.Dial(fmt.Sprintf("nats://127.0.0.1:%d", b.port), "judge")
		if err != nil {
			return err
		}
		defer nc.Close()
		found, err := check.Streams(ctx, nc, facts)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%v", found)
		}
		return err
	})
}
