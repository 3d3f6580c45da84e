package nodeapi_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// put reports over the node API.
func (p *peer) put(boot, sequence int64) (status int, code string) {
	return p.call("PUT", fmt.Sprintf(protocol.PathReport, p.node), protocol.Report{Capability: 2, Boot: boot, Sequence: sequence, Complete: true}, nil)
}

// INV-77: a stolen node key reports a boot number that no report of the true node ever reaches.
func TestINV77ABootNumberAheadIsRejected(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	p := h.join(h.declare())
	now := h.clock.Now()
	for boot, want := range map[int64]int{1 << 62: http.StatusBadRequest, now.Add(25 * time.Hour).Unix(): http.StatusBadRequest, now.Add(23 * time.Hour).Unix(): http.StatusOK} {
		if status, code := p.put(boot, 1); status != want {
			t.Errorf("boot %d: %d %s", boot, status, code)
		}
	}
}

// INV-77: a node whose key was stolen returns by a new enrolment, whatever the stolen key has reported,
// on the server with the last report in memory and on one that does not.
func TestINV77ReEnrolmentBeginsAgain(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	node := h.declare()
	stolen := h.join(node)
	if status, code := stolen.put(h.clock.Now().Add(23*time.Hour).Unix(), 1<<40); status != http.StatusOK {
		t.Fatalf("%d %s", status, code)
	}
	p := h.join(node)
	for sequence := range int64(3) {
		if status, code := p.put(5, sequence+1); status != http.StatusOK {
			t.Errorf("report %d after the new enrolment: %d %s", sequence+1, status, code)
		}
	}
	if status, code := p.put(5, 3); code != "stale_report" {
		t.Errorf("an old report: %d %s", status, code)
	}
}

// renewed obtains the next certificate over the node API.
func (h *installation) renewed(p *peer) *peer {
	h.t.Helper()
	var reply protocol.EnrolReply
	key := newKey(h.t)
	if status, code := p.call("POST", fmt.Sprintf(protocol.PathRenew, p.node), protocol.RenewRequest{CSR: csrFor(h.t, key)}, &reply); status != http.StatusOK {
		h.t.Fatalf("%d %s", status, code)
	}
	return h.peer(p.node, certificate(h.t, reply, key), nil)
}

// INV-65: a node renews just after the begin of a rotation. It receives the new root with a certificate of
// the old authority, which a finish would invalidate. It counts as left behind, and renews again.
func TestINV65ARenewalJustAfterTheBegin(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	p := h.join(h.declare())
	if status, code := p.put(1, 1); status != http.StatusOK || h.behind() != 0 {
		t.Fatalf("%d %s, %d behind", status, code, h.behind())
	}
	if err := h.local.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	p = h.renewed(p)
	// The old authority still issues at the first report; the second report starts the renewals.
	for sequence := range int64(3) {
		var reply protocol.ReportReply
		report := protocol.Report{Capability: 2, Boot: 1, Sequence: 2 + sequence, Complete: true}
		p.call("PUT", fmt.Sprintf(protocol.PathReport, p.node), report, &reply)
		if n, last := h.behind(), sequence == 2; n != 1 || last && !reply.Renew {
			t.Errorf("report %d: %d nodes are behind, renew %v", sequence, n, reply.Renew)
		}
		h.ahead.Add(int64(3 * time.Minute)) // it is the turn of every node
	}
	p = h.renewed(p)
	if n := h.behind(); n != 1 {
		t.Errorf("%d nodes are behind before the first use", n)
	}
	if status, _ := p.put(1, 5); status != http.StatusOK || h.behind() != 0 {
		t.Errorf("%d, %d nodes are behind after the first use", status, h.behind())
	}
	if err := h.local.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.CloseIdleConnections()
	if status, code, err := p.try("GET", protocol.PathTrust, nil, nil); status != http.StatusOK {
		t.Errorf("after the finish: %d %s %v", status, code, err)
	}
}

// Each enrolment of a node is one event, and an enrolment that is rejected is none.
func TestAnEnrolmentIsAnEvent(t *testing.T) {
	t.Parallel()
	h := newInstallation(t).open()
	node := h.declare()
	h.join(node)
	h.join(node)
	if status, code := h.stranger().call("POST", protocol.PathEnrol, protocol.EnrolRequest{Capability: 2, Token: "unknown", CSR: csrFor(t, newKey(t))}, nil); status != http.StatusUnauthorized {
		t.Errorf("%d %s", status, code)
	}
	var events, aggregates int
	var name string
	row := h.db.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT aggregate), min(payload->>'name') FROM outbox_events WHERE subject = 'fleet.node_enrolled' AND payload->>'node_id' = $1`, node)
	if err := row.Scan(&events, &aggregates, &name); err != nil {
		t.Fatal(err)
	}
	if events != 2 || aggregates != 2 || name == "" {
		t.Errorf("%d events of %d aggregates about %q", events, aggregates, name)
	}
}
