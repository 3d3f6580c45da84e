package helper

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/protocol"
)

// ReportAck is the response of the control plane to a report, as the network process passes it on.
type ReportAck struct {
	// Signed is a protocol.ReportAck. Without it the response has no effect.
	Signed protocol.Signed `json:"signed,omitzero"`
	// Version of the network process that sent the report.
	Version string `json:"version,omitempty"`
}

// sent is a report whose response has not arrived.
type sent struct {
	nonce    string
	boot     int64
	complete bool
	at       time.Time
}

// maxSent limits the reports whose response has not arrived. The oldest is dropped first.
const maxSent = 16

// sign gives a report its nonce and the signature of its origin, and expects a response to it.
func (l *Local) sign(r *protocol.Report) error {
	nonce := make([]byte, 16)
	if _, err := rand.Read(nonce); err != nil {
		return fmt.Errorf("drawing a nonce: %w", err)
	}
	r.Nonce = hex.EncodeToString(nonce)
	l.mu.Lock()
	l.sent = append(l.sent, sent{r.Nonce, r.Boot, r.Complete, l.Clock.Now()})
	if len(l.sent) > maxSent {
		l.sent = slices.Delete(l.sent, 0, len(l.sent)-maxSent)
	}
	l.mu.Unlock()
	return r.SignOrigin(l.proofKey, l.Node)
}

// maxStale limits the consecutive stale reports. More of them mean that the control plane has reports of
// a later life of this node: its disk is an old copy. Two reports that cross on the way are no sign of
// that.
const maxStale = 5

// HandleAck records the response of the control plane to a report. The response must have the signature of a
// statement key and the nonce of a report of this process. Each nonce counts once, and with the time of its
// report, so that an old response does not hide an outage.
func (l *Local) HandleAck(ctx context.Context, ack ReportAck) error {
	if len(ack.Signed.Body) == 0 {
		l.Log.DebugContext(ctx, "the response to a report is not signed and has no effect")
		return nil
	}
	opened, err := protocol.OpenReportAck(ack.Signed, l.Statements())
	if err == nil && opened.Node != l.Node {
		err = protocol.Reject(protocol.Misaddressed, "the response is for node %s", opened.Node)
	}
	if err != nil {
		l.Log.WarnContext(ctx, "the response to a report is not valid and has no effect", "err", err)
		return nil
	}
	report, isOwn := l.answered(opened.Nonce)
	if !isOwn {
		return nil
	}
	if opened.Accepted {
		return l.accepted(ctx, report, ack.Version)
	}
	return l.overtaken(ctx, report, opened)
}

// answered returns the report with a nonce, and no longer expects its response.
func (l *Local) answered(nonce string) (sent, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.sent, func(s sent) bool { return s.nonce == nonce })
	if i < 0 {
		return sent{}, false
	}
	s := l.sent[i]
	l.sent = slices.Delete(l.sent, i, i+1)
	return s, true
}

// accepted records that the control plane has verified a report. The time is that of the report and not of the
// response: the network process may delay a response, and must not extend the contact by that.
func (l *Local) accepted(ctx context.Context, report sent, version string) error {
	l.mu.Lock()
	if report.at.After(l.heardAt) {
		l.heardAt, l.lastHeard = report.at, report.at
	}
	l.everHeard, l.stale = true, 0
	l.topology.acknowledge()
	l.mu.Unlock()
	if err := l.storeHeard(); err != nil {
		l.Log.WarnContext(ctx, "time of the last response not stored", "err", err)
	}
	if report.complete && version != "" && l.Reported != nil {
		return l.Reported(ctx, version)
	}
	return nil
}

// overtaken counts a stale report. Only a later boot is a later life: two reports of one boot may cross,
// and the network process can make them cross.
func (l *Local) overtaken(ctx context.Context, report sent, ack protocol.ReportAck) error {
	l.mu.Lock()
	if ack.Verified && ack.Boot > report.boot {
		l.stale++
	}
	lost := !l.everHeard && l.stale == maxStale
	l.mu.Unlock()
	if !lost {
		return nil
	}
	l.Log.ErrorContext(ctx, "the control plane has a later state of this node: its disk was restored or copied. Tasks are rejected until the node is enrolled again")
	return l.runner.MarkLost("the control plane knows a later life of this node")
}

const (
	heardFile = "heard.json"
	// heardEvery is the period in which the time of the last response is stored. A restart makes an
	// outage longer by at most this time.
	heardEvery = 5 * time.Minute
)

type heard struct {
	At time.Time `json:"at"`
}

// loadHeard reads the time of the last response. The limit after which a tenant is stopped counts from
// there: a restart of this process does not extend it.
func (l *Local) loadHeard() time.Time {
	now := l.Clock.Now()
	text, err := os.ReadFile(filepath.Join(l.Dir, heardFile))
	if err != nil {
		return now
	}
	var h heard
	if err := json.Unmarshal(text, &h); err != nil || h.At.After(now) {
		return now
	}
	return h.At
}

// storeHeard writes the time of the last response at most once in heardEvery, to spare the disk.
func (l *Local) storeHeard() error {
	l.mu.Lock()
	at := l.lastHeard
	due := at.Sub(l.storedHeard) >= heardEvery
	if due {
		l.storedHeard = at
	}
	l.mu.Unlock()
	if !due {
		return nil
	}
	text, err := json.Marshal(heard{at})
	if err != nil {
		return fmt.Errorf("encoding the time of the last response: %w", err)
	}
	return durable.Write(filepath.Join(l.Dir, heardFile), text, 0o600)
}
