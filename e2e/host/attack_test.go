//go:build e2e

package host

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/e2e/rig"
	"github.com/gpuaas/gpuaas/protocol"
)

// hostileTool is the path of the attacks on the node.
const hostileTool = "/usr/local/bin/hostile"

// attack is one act of a tenant against the node that it shares.
type attack struct {
	name, args string
}

// attacks lists the attacks. $OWN is an address of the node, $NODEAPI that of the node API. GPUAAS_ATTACK_SECONDS
// is the time for which files are made in each folder.
func attacks() []attack {
	seconds := os.Getenv("GPUAAS_ATTACK_SECONDS")
	if seconds == "" {
		seconds = "1"
	}
	return []attack{
		{name: "crash-names"}, {name: "process-names"}, {name: "descriptors"}, {name: "fork-bomb"}, {name: "inotify"}, {name: "keys"},
		{name: "connections", args: "127.0.0.1:7777 $OWN:7777 [::1]:7778 127.0.0.1:22 $OWN:22 $NODEAPI 169.254.169.254:80"},
		{name: "mounts"}, {name: "fuse"}, {name: "deep-trees"}, {name: "files", args: seconds}, {name: "signals"},
		{name: "fifos"}, // the last one: its own logins wait for ever after it
	}
}

// TestINV72AHostileTenant gives a node two tenants. While one of them attacks, the session of the other continues and
// new ones start, reports stay complete, a third allocation is provisioned and released, no meter is paused, and no
// GPU becomes unhealthy. At the end everything of the hostile one is removed. It runs before the other tests, because
// their nodes use the CPUs of this computer, too.
func TestINV72AHostileTenant(t *testing.T) {
	s := begin(t)
	tool := t.TempDir() + "/hostile"
	must(t, rig.Build(tool, "github.com/gpuaas/gpuaas/e2e/host/hostile"))
	must(t, s.host.CopyIn(t.Context(), tool, hostileTool))
	victim, hostile := s.create(1), s.create(1)
	for _, a := range []*allocation{&victim, &hostile} {
		s.becomes(*a, "active")
		now, err := s.now(*a)
		must(t, err)
		*a = now
	}
	session := s.counts(victim)
	defer session.close()
	reports := s.watchReports()
	for _, x := range attacks() {
		t.Run(x.name, func(t *testing.T) {
			whole := s.t
			s.t = t
			defer func() { s.t = whole }()
			began := time.Now()
			before := faults()
			s.attack(t, hostile, x)
			if x.name == "crash-names" {
				inKernelLog(t, "NVRM: Xid (PCI:", before)
			}
			s.undisturbed(t, victim, session, reports)
			t.Logf("%s, of which the longest age of a report was %s", time.Since(began).Round(100*time.Millisecond), reports.reset())
		})
	}
	s.release(hostile)
	s.becomes(hostile, "released")
	if n := session.close(); n < 100 {
		t.Errorf("the session of the neighbour counted to %d", n)
	}
	s.release(victim)
	s.becomes(victim, "released")
	for _, a := range []allocation{hostile, victim} {
		if found := s.left(a); found != "" {
			t.Errorf("left of %s:\n%s", a.Login, found)
		}
		s.metered(t, a, "release_requested")
	}
}

// attack starts one in a session of the tenant, and returns when it is in effect. It ends with the test.
func (s *scenario) attack(t *testing.T, as allocation, x attack) {
	t.Helper()
	c, err := s.login(as)
	must(t, err)
	session, err := c.NewSession()
	must(t, err)
	in, err := session.StdinPipe()
	must(t, err)
	out, err := session.StdoutPipe()
	must(t, err)
	says := &strings.Builder{}
	session.Stderr = says
	args := strings.NewReplacer("$OWN", s.host.Addr(), "$NODEAPI", strings.TrimPrefix(s.ready.NodeURL, "https://")).Replace(x.args)
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Close()
		// What it has started would go on. The next attack needs its processes, and a test must not need one to
		// end them.
		must(t, s.host.KillGroup("user.slice/user-"+strings.TrimPrefix(as.Login, "u")+".slice"))
		if text := strings.TrimSpace(says.String()); text != "" {
			t.Log(text)
		}
	})
	const starts = time.Minute
	late := time.AfterFunc(starts, func() { _ = c.Close() })
	defer late.Stop()
	must(t, session.Start("exec "+hostileTool+" "+x.name+" "+args))
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		_ = session.Wait()
		t.Fatalf("%s is not in effect: %q %s", x.name, lines.Text(), says)
	}
}

// inKernelLog checks that the kernel has printed a further fault of a program of this name, if the test may read its
// log.
func inKernelLog(t *testing.T, name string, before []string) {
	t.Helper()
	printed, err := os.ReadFile("/proc/sys/debug/exception-trace")
	if _, denied := unix.Klogctl(readKernelLog, make([]byte, 1)); err != nil || denied != nil || strings.TrimSpace(string(printed)) == "0" {
		t.Logf("this kernel shows no faults: %v, %v", err, denied)
		return
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, line := range faults() {
			if strings.Contains(line, name) && !slices.Contains(before, line) {
				return
			}
		}
	}
	t.Errorf("the log of the kernel has no fault of a program %q", name)
}

const readKernelLog = 3

// faults lists the lines of the kernel about faults of programs, with their times.
func faults() (lines []string) {
	log := make([]byte, 1<<20)
	n, err := unix.Klogctl(readKernelLog, log)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(log[:n])) {
		if strings.Contains(line, "]: segfault at 0 ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// undisturbed checks what the neighbours of an attack notice.
func (s *scenario) undisturbed(t *testing.T, victim allocation, session *counting, reports *reportWatch) {
	t.Helper()
	const patient = 40 * time.Second // a tenth of it without an attack
	before := session.last.Load()
	began := time.Now()
	c, err := s.login(victim)
	must(t, err)
	_ = c.Close()
	login := time.Since(began)
	next := s.create(1)
	for _, status := range []string{"active", "released"} {
		if status == "released" {
			s.release(next)
		}
		began := time.Now()
		s.becomes(next, status)
		if took := time.Since(began); took > patient {
			t.Errorf("a neighbour became %s after %s", status, took)
		}
	}
	if login > patient/4 {
		t.Errorf("a login of the neighbour took %s", login)
	}
	if session.last.Load() == before {
		t.Error("the session of the neighbour does not go on")
	}
	if err := session.err.Swap(nil); err != nil {
		t.Errorf("the session of the neighbour: %v", *err)
	}
	// Without a change a node reports every ten seconds; an inspection ends within ten.
	reports.check(t, 25*time.Second)
	s.metered(t, victim, "")
	s.metered(t, next, "release_requested")
}

// metered checks that an allocation has one interval, which was never paused.
func (s *scenario) metered(t *testing.T, a allocation, closedBy string) {
	t.Helper()
	var list struct {
		Items []struct {
			ClosedBy        string `json:"closed_by"`
			CreditedBecause string `json:"credited_because"`
		} `json:"items"`
	}
	must(t, s.call("default", "GET", "/api/v1/billing/usage/intervals?allocation_id="+a.ID, nil, &list))
	if len(list.Items) != 1 || list.Items[0].ClosedBy != closedBy || list.Items[0].CreditedBecause != "" {
		t.Errorf("the meter of %s: %+v", a.Name, list.Items)
	}
}

// counting is a session that prints numbers, and one that listens.
type counting struct {
	last atomic.Int64
	err  atomic.Pointer[error]
	c    *ssh.Client
}

func (s *scenario) counts(a allocation) *counting {
	s.t.Helper()
	c, err := s.login(a)
	must(s.t, err)
	k := &counting{c: c}
	session, err := c.NewSession()
	must(s.t, err)
	out, err := session.StdoutPipe()
	must(s.t, err)
	must(s.t, session.Start(`i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done`))
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil || n != k.last.Load()+1 {
				err = fmt.Errorf("after %d came %q", k.last.Load(), lines.Text())
				k.err.Store(&err)
				return
			}
			k.last.Store(n)
		}
	}()
	listener, err := c.NewSession()
	must(s.t, err)
	heard, err := listener.StdoutPipe()
	must(s.t, err)
	_, err = listener.StdinPipe()
	must(s.t, err)
	must(s.t, listener.Start("exec "+hostileTool+" listen 0.0.0.0:7777 [::1]:7778"))
	lines := bufio.NewScanner(heard)
	if !lines.Scan() || lines.Text() != "ready" {
		s.t.Fatalf("the neighbour does not listen: %q", lines.Text())
	}
	go func() {
		for lines.Scan() {
			err := fmt.Errorf("the neighbour has %s", lines.Text())
			k.err.Store(&err)
		}
	}()
	return k
}

func (k *counting) close() int64 {
	_ = k.c.Close()
	return k.last.Load()
}

// reportWatch reads the status of the agent again and again.
type reportWatch struct {
	oldest atomic.Int64
	wrong  atomic.Pointer[string]
}

func (s *scenario) watchReports() *reportWatch {
	w, ctx := &reportWatch{}, s.t.Context()
	go func() {
		for ctx.Err() == nil {
			time.Sleep(500 * time.Millisecond)
			text, err := s.host.Exec(ctx, "gpuaas-agent", "status", "-o", "json")
			var st agent.Status
			if err == nil {
				err = json.Unmarshal([]byte(text), &st)
			}
			if ctx.Err() != nil {
				return
			}
			if wrong := wrongReport(st, err); wrong != "" {
				w.wrong.Store(&wrong)
			} else if age := time.Since(st.ReportedAt); int64(age) > w.oldest.Load() {
				w.oldest.Store(int64(age))
			}
		}
	}()
	return w
}

func wrongReport(st agent.Status, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case st.Report == nil:
		return "there is no report"
	case !st.Report.Complete || len(st.Report.Foreign) > 0:
		return fmt.Sprintf("missing %q, foreign %q", st.Report.Missing, st.Report.Foreign)
	}
	for _, g := range st.Report.Inventory.GPUs {
		if g.Health != protocol.Healthy {
			return fmt.Sprintf("GPU %d is %s: %q", g.Index, g.Health, g.Reasons)
		}
	}
	for _, a := range st.Report.Allocations {
		if a.Unread != "" || a.Phase == protocol.Broken {
			return fmt.Sprintf("allocation %s is %s: %s %s", a.Allocation, a.Phase, a.Message, a.Unread)
		}
	}
	return ""
}

func (w *reportWatch) check(t *testing.T, longest time.Duration) {
	t.Helper()
	if wrong := w.wrong.Swap(nil); wrong != nil {
		t.Errorf("a report of the node: %s", *wrong)
	}
	if age := time.Duration(w.oldest.Load()); age > longest {
		t.Errorf("the last report was %s old", age)
	}
}

func (w *reportWatch) reset() time.Duration {
	return time.Duration(w.oldest.Swap(0)).Round(100 * time.Millisecond)
}
