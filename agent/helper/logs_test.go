package helper_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// logRequest returns a signed request for a log, of a node for the zero allocation.
func (b *bundle) logRequest(r relays, of ids.Allocation, fence int64, q *protocol.LogQuery) protocol.Signed {
	e := b.logEnvelope(of, fence, q)
	return b.signBy(r.key, e)
}

func (b *bundle) logEnvelope(of ids.Allocation, fence int64, q *protocol.LogQuery) protocol.Envelope {
	b.t.Helper()
	p := someServer
	p.Kind, p.Log = protocol.StreamLogs, q
	e, err := protocol.NewRelayOpen("0001", ids.New[ids.Task](), b.node, ids.New[ids.Allocation](), 1, someServer, strings.Repeat("0", 32), "", b.now())
	if err != nil {
		b.t.Fatal(err)
	}
	e.Allocation, e.Fence = of, fence
	if e.Params, err = json.Marshal(p); err != nil {
		b.t.Fatal(err)
	}
	return e
}

// read reads a log until the text appears or the log ends.
func (b *bundle) read(c *helper.Client, id ids.Task, until string) (all string) {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		batch, err := c.ReadLog(b.t.Context(), id, false)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, i := range batch.Items {
			all += i.Text + "\n"
		}
		if batch.Over {
			return all + "END " + batch.Reason + "\n"
		}
		if until != "" && strings.Contains(all, until) {
			return all
		}
	}
	b.t.Fatalf("10 seconds later %q is not in:\n%s", until, all)
	return ""
}

// INV-53: the helper reads a log only for a signed request, for a source that it knows, and a log of an allocation only while the
// allocation is active at its fence.
func TestINV53RequestsForLogs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	relay := b.trustRelays()
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	of := ids.New[ids.Allocation]()
	task := b.provision(of, 5)
	if _, err := c.Receive(t.Context(), b.sign(task)); err != nil {
		t.Fatal(err)
	}
	b.result(c, h, task)
	login := &protocol.LogQuery{Source: protocol.LogLogin, Tail: 10}
	first := b.logRequest(relay, of, 5, login)
	got, err := c.Stream(t.Context(), first)
	if err != nil || got.Reason != "" || got.Kind != protocol.StreamLogs || got.Login != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := c.ReadLog(t.Context(), ids.New[ids.Task](), false); err == nil {
		t.Error("a log that no request has opened is read")
	}
	bent := b.logRequest(relay, of, 5, login)
	bent.Body[len(bent.Body)/2] ^= 1
	for what, try := range map[string]struct {
		signed protocol.Signed
		code   protocol.RejectReason
	}{
		"repeated":                    {first, protocol.Replayed},
		"forged":                      {bent, protocol.SignatureInvalid},
		"signed by the task key":      {b.signBy(b.key, b.logEnvelope(of, 5, login)), protocol.SignatureInvalid},
		"without a query":             {b.logRequest(relay, of, 5, nil), protocol.ParamsInvalid},
		"an unknown source":           {b.logRequest(relay, of, 5, &protocol.LogQuery{Source: "/etc/shadow"}), protocol.ParamsInvalid},
		"a source of operators":       {b.logRequest(relay, of, 5, &protocol.LogQuery{Source: protocol.LogSystem}), protocol.ParamsInvalid},
		"a source of tenants, node's": {b.logRequest(relay, ids.Allocation{}, 0, login), protocol.ParamsInvalid},
		"too many lines":              {b.logRequest(relay, of, 5, &protocol.LogQuery{Source: protocol.LogLogin, Tail: protocol.MaxLogTail + 1}), protocol.ParamsInvalid},
		"a negative time":             {b.logRequest(relay, of, 5, &protocol.LogQuery{Source: protocol.LogLogin, Since: -1}), protocol.ParamsInvalid},
		"without a fence":             {b.logRequest(relay, of, 0, login), protocol.ParamsInvalid},
	} {
		if got, err := c.Stream(t.Context(), try.signed); protocol.CodeOf(err) != try.code || got.Address != "" {
			t.Errorf("%s: %+v, %v, want %s", what, got, err, try.code)
		}
	}
	for what, try := range map[string]struct {
		signed protocol.Signed
		code   protocol.RejectReason
	}{
		"an old fence":               {b.logRequest(relay, of, 4, login), protocol.StaleFence},
		"a later fence":              {b.logRequest(relay, of, 6, login), protocol.NotActive},
		"an unknown allocation":      {b.logRequest(relay, ids.New[ids.Allocation](), 5, login), protocol.NotActive},
		"tasks of an old fence":      {b.logRequest(relay, of, 4, &protocol.LogQuery{Source: protocol.LogAgent}), protocol.StaleFence},
		"tasks of another one":       {b.logRequest(relay, ids.New[ids.Allocation](), 5, &protocol.LogQuery{Source: protocol.LogAgent}), protocol.NotActive},
		"faults of an unknown one's": {b.logRequest(relay, ids.New[ids.Allocation](), 5, &protocol.LogQuery{Source: protocol.LogKernel}), protocol.NotActive},
	} {
		if got, err := c.Stream(t.Context(), try.signed); err != nil || !strings.HasPrefix(got.Reason, string(try.code)) {
			t.Errorf("%s: %+v, %v, want %s", what, got, err, try.code)
		}
	}
}

// A fault and a login appear in the logs of their allocation, and in no other. The tasks of an allocation are followed through its
// release, which ends its other logs.
func TestLogsOfAllocations(t *testing.T) {
	t.Parallel()
	b := setup(t)
	relay := b.trustRelays()
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	open := func(of ids.Allocation, fence int64, source protocol.LogSource) ids.Task {
		t.Helper()
		s, err := c.Stream(t.Context(), b.logRequest(relay, of, fence, &protocol.LogQuery{Source: source, Tail: 100, Follow: true}))
		if err != nil || s.Reason != "" {
			t.Fatalf("%s: %+v %v", source, s, err)
		}
		return s.ID
	}
	mine, theirs := ids.New[ids.Allocation](), ids.New[ids.Allocation]()
	task := b.provision(mine, 5)
	other := b.envelope(theirs, 5, protocol.ProvisionUser, protocol.ProvisionUserParams{User: "t-2", UID: 200002, PublicKeys: []string{tenantKey}, GPUs: b.gpus[1:2]}, b.gpus[1])
	for _, e := range []protocol.Envelope{task, other} {
		if _, err := c.Receive(t.Context(), b.sign(e)); err != nil {
			t.Fatal(err)
		}
		b.result(c, h, e)
	}
	kernel, kernel2, login, login2, steps := open(mine, 5, protocol.LogKernel), open(theirs, 5, protocol.LogKernel), open(mine, 5, protocol.LogLogin), open(theirs, 5, protocol.LogLogin), open(mine, 5, protocol.LogAgent)
	if got := b.read(c, steps, "succeeded"); !strings.Contains(got, "provision_user, attempt 1: accepted\n") || !strings.Contains(got, ": step ") || strings.Contains(got, "t-2") {
		t.Errorf("steps:\n%s", got)
	}
	faulty := -1
	for i, g := range b.host().GPUs {
		if g.UUID == b.gpus[0] {
			faulty = i
		}
	}
	if err := sim.Fault(b.dir, faulty, 48); err != nil {
		t.Fatal(err)
	}
	if err := sim.Log(b.dir, protocol.LogSSHD, "t-1", "session opened"); err != nil {
		t.Fatal(err)
	}
	if err := sim.Log(b.dir, protocol.LogKernel, "", "NVRM: Xid (PCI:0000:00:00): 79, text of a program about "+b.gpus[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Inspect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.read(c, kernel, "xid 48"); !strings.Contains(got, b.gpus[0]) || strings.Contains(got, "NVRM") {
		t.Errorf("kernel: %s", got)
	}
	if got := b.read(c, login, "session opened"); strings.Count(got, "\n") != 1 {
		t.Errorf("login: %s", got)
	}
	// Everything that happened was read by the streams of the first allocation. Those of the second one are read last.
	release := b.revoke(mine, 6)
	if _, err := c.Receive(t.Context(), b.sign(release)); err != nil {
		t.Fatal(err)
	}
	b.result(c, h, release)
	if got := b.read(c, steps, "END"); !strings.Contains(got, "revoke_user, attempt 1: succeeded\nEND \n") {
		t.Errorf("release:\n%s", got)
	}
	for _, id := range []ids.Task{kernel, login} {
		if got := b.read(c, id, "END"); !strings.Contains(got, "END "+string(protocol.NotActive)) {
			t.Errorf("after the release: %s", got)
		}
	}
	for _, id := range []ids.Task{kernel2, login2} {
		if batch, err := c.ReadLog(t.Context(), id, false); err != nil || len(batch.Items) != 0 || batch.Over {
			t.Errorf("the other allocation reads %+v, %v", batch, err)
		}
		if _, err := c.ReadLog(t.Context(), id, true); err != nil {
			t.Error(err)
		}
		if _, err := c.ReadLog(t.Context(), id, false); err == nil {
			t.Error("an ended log is read")
		}
	}
}

// Each source of operators has lines.
func TestLogsOfANode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	relay := b.trustRelays()
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	for _, source := range protocol.NodeLogs {
		s, err := c.Stream(t.Context(), b.logRequest(relay, ids.Allocation{}, 0, &protocol.LogQuery{Source: source, Tail: 10}))
		if err != nil || s.Reason != "" {
			t.Fatalf("%s: %+v %v", source, s, err)
		}
		if got := b.read(c, s.ID, "END"); strings.Count(got, "\n") < 2 || !strings.HasSuffix(got, "END \n") {
			t.Errorf("%s: %s", source, got)
		}
	}
}
