//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/e2e/check"
)

// stream creates and releases allocations until stop is called. stop returns the number of
// allocations that became final.
func stream(t *testing.T, h *installation, workers int) (stop func() int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	quit, n := make(chan struct{}), 0
	for w := range workers {
		wg.Go(func() {
			sku := []string{"t4", "l40s", "h100-sxm"}[w%3]
			for i := 0; ; i++ {
				select {
				case <-quit:
					return
				default:
				}
				name := fmt.Sprintf("s-%d-%d", w, i)
				a, ok := h.patiently(t, "POST", "/api/v1/allocations", "create-"+name, map[string]any{"sku": sku, "gpus": 1, "name": name}, 201)
				if !ok {
					return
				}
				if i%3 != 0 { // every third is released during its provisioning
					h.reaches(t, a, "active")
				}
				if _, ok := h.patiently(t, "POST", "/api/v1/allocations/"+a.ID+"/release", "release-"+name, map[string]any{}, 202); !ok {
					return
				}
				if !h.reaches(t, a, "released") {
					return
				}
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	end := sync.OnceFunc(func() { close(quit); wg.Wait() })
	t.Cleanup(end) // also when the test gives up before
	return func() int { end(); return n }
}

// patiently is stubborn, but does not start the server again.
func (h *installation) patiently(t *testing.T, method, path, key string, body any, want int) (a allocation, ok bool) {
	ok = until(t, 2*patience, method+" "+path+" "+key, func() error {
		status, err := h.call(method, path, key, body, &a)
		if err == nil && status == want {
			return nil
		}
		time.Sleep(10 * pollEvery)
		return fmt.Errorf("%d: %v", status, err)
	})
	return a, ok
}

func (h *installation) reaches(t *testing.T, a allocation, status string) bool {
	return until(t, 2*patience, a.Name+" becomes "+status, func() error {
		time.Sleep(10 * pollEvery)
		var now allocation
		if _, err := h.call("GET", "/api/v1/allocations/"+a.ID, "", nil, &now); err != nil {
			return err
		}
		if now.Status != status {
			return fmt.Errorf("%s is %s", a.Name, now.Status)
		}
		return nil
	})
}

// TestPostgresKilledMidFlow kills PostgreSQL under a running installation, which must start it
// again.
func TestPostgresKilledMidFlow(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.start()
	stop := stream(t, h, 2)
	seeded := rand.New(rand.NewPCG(5, 5))
	for i := range 4 {
		time.Sleep(time.Duration(200+seeded.IntN(800)) * time.Millisecond)
		pid, _ := h.postmaster()
		victim := pid
		if i%2 == 1 { // a backend: the postmaster then ends all others and recovers
			victim = backend(t, pid)
		}
		must(t, syscall.Kill(victim, syscall.SIGKILL))
		if victim == pid && !until(t, patience, "another postmaster", func() error {
			if now, _ := h.postmaster(); now == pid || now == 0 {
				return fmt.Errorf("still %d", now)
			}
			return nil
		}) {
			return
		}
	}
	time.Sleep(time.Second)
	n := stop()
	t.Logf("%d allocations came to their end", n)
	if n == 0 || h.over() || h.starts != 1 {
		t.Errorf("%d allocations, up over: %v, starts: %d", n, h.over(), h.starts)
	}
	h.converges(t, patience, check.Expect{Rested: true})
	delivered(t, h)
}

// backend returns a process of the postmaster that serves a client. There is none for a moment
// after a restart.
func backend(t *testing.T, postmaster int) (pid int) {
	t.Helper()
	if !until(t, patience, "a backend", func() error {
		entries, err := os.ReadDir("/proc")
		for _, e := range entries {
			n, notOne := strconv.Atoi(e.Name())
			if notOne != nil || parent(n) != postmaster {
				continue
			}
			if line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")); bytes.Contains(line, []byte("[local]")) {
				pid = n
				return nil
			}
		}
		return fmt.Errorf("the postmaster accepts no connection (%v)", err)
	}) {
		t.FailNow()
	}
	return pid
}

func parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

// TestAgentKilledMidTask kills an agent at several moments of a task. Afterwards the node must have
// the same state as after an undisturbed task.
func TestAgentKilledMidTask(t *testing.T) {
	t.Parallel()
	h := newInstallation(t, "--agents=processes")
	h.start()
	seeded := rand.New(rand.NewPCG(7, 7))
	done := watch(t, h)
	for range 12 {
		a := h.create(t, "t4", 2)
		h.shoot(t, "gpu-t4-01", time.Duration(seeded.IntN(60))*time.Millisecond)
		if !h.becomes(t, a, "active") {
			break
		}
		h.release(t, a)
		h.shoot(t, "gpu-t4-01", time.Duration(seeded.IntN(60))*time.Millisecond)
		if !h.becomes(t, a, "released") {
			break
		}
	}
	done()
	if h.starts != 1 {
		t.Error("up ended with its agent")
	}
	h.converges(t, patience, check.Expect{Rested: true})
	delivered(t, h)
}

// shoot kills the agent of a node after a delay.
func (h *installation) shoot(t *testing.T, node string, after time.Duration) {
	t.Helper()
	time.Sleep(after)
	for _, p := range h.processes() {
		if strings.Contains(p.what, "gpuaas-agent run") && strings.Contains(p.what, filepath.Join(h.agents(), node)+" ") {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// TestServerKilledAnytime kills the whole installation twenty times at random moments under load.
func TestServerKilledAnytime(t *testing.T) {
	t.Parallel()
	const seed = 20
	t.Logf("seed %d", seed)
	h := newInstallation(t)
	h.start()
	stop := stream(t, h, 3)
	seeded := rand.New(rand.NewPCG(seed, seed))
	for range 20 {
		time.Sleep(time.Duration(seeded.IntN(1200)) * time.Millisecond)
		must(t, syscall.Kill(h.up.Process.Pid, syscall.SIGKILL))
		<-h.ended
		h.start()
	}
	time.Sleep(time.Second)
	n := stop()
	t.Logf("%d allocations came to their end under %d starts", n, h.starts)
	if n == 0 {
		t.Error("nothing happened between the kills")
	}
	h.stop() // so that the next start charges at once
	h.start()
	h.converges(t, patience, check.Expect{Rested: true})
	delivered(t, h)
	h.start()
	h.kill()
	if left := h.endsWithin(10 * time.Second); len(left) > 0 {
		t.Errorf("orphans: %v", left)
	}
}
