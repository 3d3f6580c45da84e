package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	gpuA = "GPU-0000aaaa-0000-0000-0000-000000000001"
	pciA = "0000:1b:00.0"
)

var boards = []protocol.GPU{{UUID: gpuA, PCI: pciA, Health: protocol.Healthy}}

// turned is a clock that a test turns.
type turned struct {
	mu  sync.Mutex
	now time.Time
}

func (c *turned) turn(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

func (c *turned) clock() clock.Clock {
	return clock.At(func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.now
	})
}

func checks(reports []protocol.HealthReport) string {
	var said []string
	for _, r := range reports {
		if r.Check != "" {
			said = append(said, r.Source+":"+r.Check)
		}
	}
	return strings.Join(said, " ")
}

func well(context.Context, string) ([]byte, error) {
	return json.Marshal(health.Answer{Health: []protocol.HealthReport{}})
}

func watch(t *testing.T, c *turned) *health.Watch {
	t.Helper()
	return &health.Watch{Run: well, Log: slog.New(slog.DiscardHandler), Clock: c.clock(), First: 10 * time.Second}
}

// AGENT-28: a probe that never returns reads unknown, and nothing waits for it. It
// is not started a second time.
func TestAProbeThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	c := &turned{now: time.Unix(1e9, 0)}
	w := watch(t, c)
	var mu sync.Mutex
	started := 0
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	w.Run = func(ctx context.Context, probe string) ([]byte, error) {
		if probe != "disk" {
			return well(ctx, probe)
		}
		mu.Lock()
		started++
		mu.Unlock()
		<-hang // in the driver's sleep: deaf to the deadline
		return nil, errors.New("late")
	}
	w.First = 50 * time.Millisecond
	for range 20 {
		began := time.Now()
		if got := checks(w.Check(t.Context(), boards, nil, nil)); got != "disk:probe_silent" {
			t.Fatalf("reports %q", got)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("a check took %s", took)
		}
		c.turn(time.Minute)
	}
	mu.Lock()
	defer mu.Unlock()
	if started != 1 {
		t.Errorf("started %d times", started)
	}
}

// The last result of one that worked and then hangs counts for a while, not for ever.
func TestAnOldAnswerIsNoAnswer(t *testing.T) {
	t.Parallel()
	c := &turned{now: time.Unix(1e9, 0)}
	w := watch(t, c)
	if got := checks(w.Check(t.Context(), boards, nil, nil)); got != "" {
		t.Fatalf("reports %q", got)
	}
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	w.Run = func(context.Context, string) ([]byte, error) { <-hang; return nil, errors.New("late") }
	c.turn(time.Minute)
	if got := checks(w.Check(t.Context(), boards, nil, nil)); got != "" {
		t.Errorf("after a minute %q", got)
	}
	c.turn(90 * time.Second)
	if got := checks(w.Check(t.Context(), boards, nil, nil)); got != "clock:probe_silent disk:probe_silent memory:probe_silent network:probe_silent" {
		t.Errorf("after 90 seconds more %q", got)
	}
}

func TestADriverThatDoesNotAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	w := watch(t, &turned{now: time.Unix(1e9, 0)})
	reports := w.Check(t.Context(), nil, nil, errors.New("nvidia-smi did not answer"))
	i := slices.IndexFunc(reports, func(r protocol.HealthReport) bool { return r.Check == "driver_silent" })
	if i < 0 || reports[i].Level != protocol.Unknown || !slices.Contains(reports[i].Classes, protocol.PreventAllocations) {
		t.Errorf("%+v", reports)
	}
}

// A limit that is touched for a moment is no fault, and one that is gone for a moment
// is not mended.
func TestHeatMustLast(t *testing.T) {
	t.Parallel()
	c := &turned{now: time.Unix(1e9, 0)}
	w := watch(t, c)
	w.Every = time.Hour // this test does not check the probes
	hot := []protocol.HealthReport{health.NewReport("driver", gpuA, "thermal", "")}
	cool := []protocol.HealthReport{health.Well("driver", gpuA)}
	for i, step := range []struct {
		after time.Duration
		said  []protocol.HealthReport
		want  string
	}{
		{0, hot, ""},
		{30 * time.Second, hot, ""},
		{10 * time.Second, cool, ""},
		{10 * time.Second, hot, ""}, // begins again
		{59 * time.Second, hot, ""},
		{time.Second, hot, "driver:thermal"},
		{time.Minute, cool, "driver:thermal"},
		{time.Minute, hot, "driver:thermal"},
		{299 * time.Second, cool, "driver:thermal"},
		{time.Second, cool, ""},
		{time.Second, hot, ""},
	} {
		c.turn(step.after)
		reports := w.Check(t.Context(), boards, step.said, nil)
		if got := checks(reports); got != step.want {
			t.Errorf("step %d reports %q, want %q", i, got, step.want)
		}
		if err := protocol.CheckHealth(reports); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
		if !slices.ContainsFunc(reports, func(r protocol.HealthReport) bool { return r.Source == "driver" && r.Target == gpuA }) {
			t.Errorf("step %d: the driver reports nothing", i)
		}
	}
}

const xid = "NVRM: Xid (PCI:0000:1b:00): %, pid=1"

func line(n string) string { return strings.Replace(xid, "%", n, 1) }

// An XID is reported until the table clears it: also after a restart of the agent, but not after a start of the node
// if that clears it.
func TestXIDsRemainUntilCleared(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "health.json")
	now := time.Unix(1e9, 0)
	open := func(boot string) *health.Ledger {
		t.Helper()
		l, err := health.OpenLedger(path, boot)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	says := func(l *health.Ledger) string { return checks(l.Reports(boards)) }
	l := open("b1")
	for i, n := range []int{31, 45, 48, 54, 79, 48, 777} {
		l.Add(uint64(i), line(strconv.Itoa(n)), now)
		l.AddEvent(health.Event{PCI: pciA, XID: n}, now)
	}
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	const all = "xid:xid_31 xid:xid_45 xid:xid_48 xid:xid_54 xid:xid_79 xid:xid_777"
	if got := says(l); got != all {
		t.Errorf("reports %q", got)
	}
	l = open("b1")
	if l.Add(3, line("62"), now) || says(l) != all {
		t.Errorf("a line that was read is read again: %q", says(l))
	}
	if l.Expire(now.Add(59*time.Minute)) || !l.Expire(now.Add(time.Hour)) || says(l) != "xid:xid_45 xid:xid_48 xid:xid_54 xid:xid_79 xid:xid_777" {
		t.Errorf("after an hour %q", says(l))
	}
	if !l.Reset(pciA) || says(l) != "xid:xid_45 xid:xid_54 xid:xid_79 xid:xid_777" {
		t.Errorf("after a reset %q", says(l))
	}
	l.Add(7, line("48"), now)
	l.Add(8, line("13"), now)
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	if l = open("b2"); says(l) != "xid:xid_45 xid:xid_777 xid:xid_13" || l.Read != 0 {
		t.Errorf("after a start of the node %q, read to %d", says(l), l.Read)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l = open("b2"); says(l) != "" {
		t.Errorf("of a damaged file %q", says(l))
	}
}

// A pipe replaces the kernel's log: it never has a line to wait for.
func TestTheKernelLogIsReadWithoutWaiting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := filepath.Join(dir, "kmsg")
	if err := syscall.Mkfifo(at, 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := health.OpenKernelLog(at)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	w, err := os.OpenFile(at, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := health.OpenLedger(filepath.Join(dir, "health.json"), "b")
	if err != nil {
		t.Fatal(err)
	}
	if changed, lost, err := k.ReadInto(l, time.Unix(1, 0)); changed || lost || err != nil {
		t.Errorf("nothing there: %v, %v, %v", changed, lost, err)
	}
	if _, err := w.WriteString("4,812,99,-;" + line("79") + "\n SUBSYSTEM=pci\n"); err != nil {
		t.Fatal(err)
	}
	if changed, _, err := k.ReadInto(l, time.Unix(1, 0)); !changed || err != nil || l.Read != 813 || checks(l.Reports(boards)) != "xid:xid_79" {
		t.Errorf("%v, %v, %+v", changed, err, l)
	}
	if _, err := w.WriteString("no record"); err != nil {
		t.Fatal(err)
	}
	if changed, _, err := k.ReadInto(l, time.Unix(1, 0)); changed || err != nil {
		t.Errorf("%v, %v", changed, err)
	}
}

// A real child: one that prints, one that fails, one that outlives its deadline.
func TestChildren(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := health.Start(ctx, "/bin/sh", "-c", "sleep 60 & wait"); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("%v", err)
	}
	if out, err := health.Start(t.Context(), "/bin/sh", "-c", "echo hello"); err != nil || string(out) != "hello\n" {
		t.Errorf("%q, %v", out, err)
	}
	for rule, script := range map[string]string{"fails": "exit 3", "prints without end": "exec yes"} {
		if _, err := health.Start(t.Context(), "/bin/sh", "-c", script); err == nil {
			t.Errorf("%s: no error", rule)
		}
	}
}

func TestProbesOfAPlantedHost(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	probe := func(name string) string {
		t.Helper()
		said, err := health.Probes[name](t.Context(), root)
		if err != nil || protocol.CheckHealth(said) != nil || len(said) == 0 {
			t.Fatalf("%s: %+v, %v", name, said, err)
		}
		return checks(said)
	}
	if got := probe("memory") + probe("network"); got != "" {
		t.Errorf("an empty node: %q", got)
	}
	put("sys/devices/system/edac/mc/mc0/ce_count", "999")
	put("sys/devices/system/edac/mc/mc0/ue_count", "0")
	put("sys/class/net/ens1/device/vendor", "0x15b3")
	put("sys/class/net/ens1/flags", "0x1003")
	put("sys/class/net/ens1/operstate", "up")
	put("sys/class/net/ens2/device/vendor", "0x15b3")
	put("sys/class/net/ens2/flags", "0x1002") // it is not configured to be up
	put("sys/class/net/ens2/operstate", "down")
	if got := probe("memory") + probe("network"); got != "" {
		t.Errorf("a healthy node: %q", got)
	}
	put("sys/devices/system/edac/mc/mc1/ce_count", "1")
	put("sys/devices/system/edac/mc/mc1/ue_count", "1")
	put("sys/class/net/ens1/operstate", "down")
	put("sys/class/nvme/nvme0/state", "dead")
	if got := probe("memory"); got != "memory:memory_uncorrected memory:memory_corrected" {
		t.Errorf("memory: %q", got)
	}
	if got := probe("network"); got != "network:nic_down" {
		t.Errorf("network: %q", got)
	}
	if got := probe("disk"); !strings.HasSuffix(got, "disk:disk_failing") {
		t.Errorf("disk: %q", got)
	}
	if _, err := health.Probes["clock"](t.Context(), root); err != nil {
		t.Errorf("clock: %v", err)
	}
}

// A child that reports events prints lines until it ends. One that prints no line feed is ended.
func TestAChildIsFollowed(t *testing.T) {
	t.Parallel()
	var lines []string
	each := func(line []byte) { lines = append(lines, string(line)) }
	if err := health.Follow(t.Context(), each, "/bin/sh", "-c", "echo a; echo b; exit 3"); err == nil || strings.Join(lines, " ") != "a b" {
		t.Errorf("%q, %v", lines, err)
	}
	if err := health.Follow(t.Context(), each, "/bin/sh", "-c", "exec cat /dev/zero"); err == nil {
		t.Error("an endless line is accepted")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := health.Follow(ctx, each, "/bin/sh", "-c", "exec sleep 60"); err == nil {
		t.Error("a child outlives its parent's interest")
	}
}
