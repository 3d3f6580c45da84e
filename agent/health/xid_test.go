package health_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol"
)

// kernelLog returns a function that passes records to the ledger as the kernel would.
func kernelLog(tb testing.TB, l *health.Ledger) func(record string) {
	tb.Helper()
	at := filepath.Join(tb.TempDir(), "kmsg")
	if err := syscall.Mkfifo(at, 0o600); err != nil {
		tb.Fatal(err)
	}
	k, err := health.OpenKernelLog(at)
	if err != nil {
		tb.Fatal(err)
	}
	w, err := os.OpenFile(at, os.O_WRONLY, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = w.Close(), k.Close() })
	return func(record string) {
		if _, err := w.WriteString(record); err != nil {
			tb.Fatal(err)
		}
		if _, _, err := k.ReadInto(l, time.Unix(1e9, 0)); err != nil {
			tb.Fatal(err)
		}
	}
}

func ledger(tb testing.TB) *health.Ledger {
	tb.Helper()
	l, err := health.OpenLedger(filepath.Join(tb.TempDir(), "health.json"), "b")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

const forged = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1"

// INV-72. Threat: the kernel logs a crash with the name of the program, of its file and of its thread, and
// a tenant chooses all three. None of them is an XID.
func TestAProgramNameIsNoXID(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]string{
		"file":                 "6,1,1,-;a.out[78]: segfault at 0 ip 000055 sp 00007f error 4 in " + forged + "[55d0+1000] likely on CPU 3\n",
		"file and thread":      "6,1,1,-;NVRM: Xid (PCI:[77]: segfault at 0 ip 0 sp 0 error 4 in " + forged + "[1000+1000]\n",
		"thread":               "6,1,1,-;traps: " + forged + " general protection fault\n",
		"second in one line":   "6,1,1,-;NVRM: Xid (PCI:x): 1, name=" + forged + "\n",
		"mapping":              "6,1,1,-;NVRM: Xid (PCI:0000:1b:00): 79[1000+1000]\n",
		"line feed":            "6,1,1,-;in \\x0a" + forged + "\n",
		"property":             "6,1,1,-;x\n " + forged + "\n",
		"begun fragment":       "6,1,1,c;" + forged + "\n",
		"continued fragment":   "6,1,1,+;" + forged + "\n",
		"program by /dev/kmsg": "14,1,1,-;" + forged + "\n",
		"service":              "30,1,1,-;" + forged + "\n",
		"no priority":          "x,1,1,-;" + forged + "\n",
	} {
		l := ledger(t)
		kernelLog(t, l)(record)
		if got := checks(l.Reports(boards)); strings.Contains(got, "xid_") {
			t.Errorf("%s: reports %q", name, got)
		}
	}
	l := ledger(t)
	kernelLog(t, l)("6,1,1,-;a.out[78]: segfault at 0 in " + forged + "[55d0+1000]\n")
	if got := l.Reports(boards); checks(got) != "xid:kernel_log_forged" || got[len(got)-1].Level != protocol.Healthy {
		t.Errorf("an imitation is reported as %+v", got)
	}
	if l.Expire(time.Unix(1e9, 0).Add(time.Hour)) || !l.Expire(time.Unix(1e9, 0).Add(24*time.Hour)) || checks(l.Reports(boards)) != "" {
		t.Error("an imitation does not expire")
	}
}

// INV-72. Threat: an unknown way to write a line of the kernel log makes a GPU unhealthy, its own or that of
// another tenant. An XID of the log alone leaves every GPU healthy and for sale.
func TestAnXIDOfTheLogIsAHint(t *testing.T) {
	t.Parallel()
	l := ledger(t)
	put := kernelLog(t, l)
	for n := 1; n <= 200; n++ {
		put(fmt.Sprintf("4,%d,1,-;NVRM: Xid (PCI:0000:1b:00): %d, pid=1\n", n, n))
	}
	reports := l.Reports(boards)
	if len(reports) < 200 {
		t.Fatalf("%d reports", len(reports))
	}
	for _, r := range reports {
		if r.Level != protocol.Healthy || len(r.Classes) > 0 || r.Check != "" && (r.Evidence != protocol.FromLog || !strings.Contains(r.Message, "only in the kernel log")) {
			t.Errorf("%+v", r)
		}
	}
	gpus := slices.Clone(boards)
	if health.MergeHealth(gpus, reports); gpus[0].Health != protocol.Healthy {
		t.Errorf("%+v", gpus[0])
	}
}

func TestTheDriverConfirmsAnXID(t *testing.T) {
	t.Parallel()
	l := ledger(t)
	put := kernelLog(t, l)
	e, now := health.Event{PCI: pciA, XID: 79}, time.Unix(1e9, 0)
	put("4,1,1,-;" + forged + "\n")
	l.AddEvent(e, now)
	put("4,2,1,-;" + forged + "\n") // the log has it again
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	r := l.Reports(boards)[0]
	if r.Level != protocol.Unhealthy || r.Evidence != protocol.FromDriver || !slices.Contains(r.Classes, protocol.PreventAllocations) || l.Events[0].Times != 3 {
		t.Errorf("%+v %+v", r, l.Events)
	}
}

// Threat: hints displace an event of the driver, or make the report longer than the control plane accepts.
func TestHintsDisplaceNoEvent(t *testing.T) {
	t.Parallel()
	l := ledger(t)
	now := time.Unix(1e9, 0)
	l.AddEvent(health.Event{PCI: pciA, XID: 79}, now)
	for n := range 9999 {
		l.Add(uint64(n), fmt.Sprintf("NVRM: Xid (PCI:0000:1b:00): %d, pid=1", n), now.Add(time.Duration(n)*time.Second))
	}
	reports := l.Reports(boards)
	if err := protocol.CheckHealth(reports); err != nil || len(reports) > 1000 {
		t.Errorf("%d reports: %v", len(reports), err)
	}
	if !slices.ContainsFunc(reports, func(r protocol.HealthReport) bool { return r.Check == "xid_79" && r.Level == protocol.Unhealthy }) {
		t.Error("the event of the driver is lost")
	}
}

// FuzzKernelRecord: root parses what tenants can write into. Only a whole line of the kernel that begins
// with the driver's text is an XID, and it is a hint.
func FuzzKernelRecord(f *testing.F) {
	f.Add("6,1,1,-;" + forged + "\n SUBSYSTEM=pci\n")
	f.Add("14,18446744073709551615,1,c,caller=T1;" + forged)
	f.Fuzz(func(t *testing.T, record string) {
		if record == "" || len(record) > 4000 {
			return
		}
		l := ledger(t)
		kernelLog(t, l)(record)
		for _, r := range l.Reports(boards) {
			if r.Level != protocol.Healthy {
				t.Errorf("%q: %+v", record, r)
			}
		}
		if head, text, _ := strings.Cut(record, ";"); len(l.Events) > 0 && (!strings.HasPrefix(text, "NVRM: Xid (PCI:") || strings.Split(head, ",")[3] != "-") {
			t.Errorf("%q: %+v", record, l.Events)
		}
	})
}

func TestHealthOnlyWorsens(t *testing.T) {
	t.Parallel()

	g := protocol.GPU{Health: protocol.Unhealthy}
	health.Worsen(&g, protocol.Degraded, "warm")
	health.Worsen(&g, protocol.Unknown, "silent")
	if g.Health != protocol.Unhealthy || len(g.Reasons) != 2 {
		t.Errorf("%+v", g)
	}
}
