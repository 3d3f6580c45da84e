package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// TrustState is whom this half takes orders from, and as which node. Root writes the
// first one when the node is enrolled; after that only a statement that is signed
// with a key believed already changes it.
type TrustState struct {
	Node    ids.Node  `json:"node_id"`
	Journal uuid.UUID `json:"journal_id"` // zero until the first one is made
	// Sequence of the last statement.
	Sequence    int64             `json:"sequence"`
	TaskKeys    map[string][]byte `json:"task_keys"`
	ReleaseKeys map[string][]byte `json:"release_keys"`
}

const trustFile = "belief.json"

// ErrNotEnrolled means that root has not told this half which node it is.
var ErrNotEnrolled = errors.New("this node is not enrolled: run gpuaas-agent install with a token")

// LoadTrustState reads the belief in dir.
func LoadTrustState(dir string) (b TrustState, err error) {
	text, err := os.ReadFile(filepath.Join(dir, trustFile))
	if errors.Is(err, fs.ErrNotExist) {
		return b, ErrNotEnrolled
	} else if err != nil {
		return b, fmt.Errorf("reading trust state: %w", err)
	}
	if err := json.Unmarshal(text, &b); err != nil || len(b.TaskKeys) == 0 || b.Node == (ids.Node{}) {
		return b, fmt.Errorf("%s is damaged: enrol the node again: %w", trustFile, errors.Join(err, ErrNotEnrolled))
	}
	return b, nil
}

// Save replaces the belief in dir.
func (b TrustState) Save(dir string) error {
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return fmt.Errorf("encoding trust state: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("saving trust state: %w", err)
	}
	return durable.Write(filepath.Join(dir, trustFile), text, 0o600)
}

// FirstTrustState is what a reply to an enrolment makes root believe. The journal of
// the same node stays.
func FirstTrustState(dir string, node ids.Node, trust protocol.Trust) (TrustState, error) {
	b := TrustState{Node: node, TaskKeys: trust.TaskKeys}
	if before, err := LoadTrustState(dir); err == nil && before.Node == node {
		b.Journal = before.Journal
	}
	if len(trust.Statement.Body) == 0 {
		return b, nil
	}
	return b.after(trust.Statement)
}

// after is the belief once the statement is taken.
func (b TrustState) after(s protocol.Signed) (TrustState, error) {
	t, err := protocol.OpenStatement(s, b.TaskKeys)
	switch {
	case err != nil:
		return b, err
	case t.Node != b.Node:
		return b, protocol.Reject(protocol.Misaddressed, "the statement is for node %s", t.Node)
	case t.Sequence < b.Sequence:
		return b, protocol.Reject(protocol.Replayed, "statement %d is older than %d", t.Sequence, b.Sequence)
	case t.Sequence == b.Sequence && !sameKeys(b, t):
		return b, protocol.Reject(protocol.FenceConflict, "two statements are number %d", t.Sequence)
	}
	b.Sequence, b.TaskKeys, b.ReleaseKeys = t.Sequence, t.TaskKeys, t.ReleaseKeys
	return b, nil
}

func sameKeys(b TrustState, t protocol.TrustStatement) bool {
	same := func(a, b []byte) bool { return string(a) == string(b) }
	return maps.EqualFunc(b.TaskKeys, t.TaskKeys, same) && maps.EqualFunc(b.ReleaseKeys, t.ReleaseKeys, same)
}

// reloadTrust makes the keys of the belief those that tasks are judged by.
func (l *Local) reloadTrust() (err error) {
	if l.trust, err = LoadTrustState(l.Dir); err != nil {
		return err
	}
	l.Node, l.Journal = l.trust.Node, l.trust.Journal
	l.Keys = func() map[string][]byte {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.trust.TaskKeys // replaced as a whole, never changed
	}
	return nil
}

// storeReport ties the belief to the first journal.
func (l *Local) storeReport(j *journal.Journal) error {
	if l.trust.Node == (ids.Node{}) || j == nil || l.trust.Journal == j.ID() {
		return nil
	}
	l.trust.Journal = j.ID()
	return l.trust.Save(l.Dir)
}

// BootstrapTrust writes the first belief, and gives up a journal that was lost: an operator
// has vouched for the host anew.
func BootstrapTrust(dir, anchor string, b TrustState, now time.Time) error {
	_, err := journal.Open(journal.Options{Dir: dir, Node: b.Node, Expect: b.Journal, Anchor: anchor, Now: now})
	if isLost(err) {
		b.Journal, err = uuid.Nil, journal.Wipe(dir, anchor)
	}
	if err != nil {
		return err
	}
	return b.Save(dir)
}

// Remembers says whether the belief and the journal of the node are there.
func Remembers(dir, anchor string, node ids.Node, now time.Time) (bool, error) {
	b, err := LoadTrustState(dir)
	if err != nil || b.Node != node {
		return false, nil //nolint:nilerr // not there, or not to be read: the same
	}
	_, err = journal.Open(journal.Options{Dir: dir, Node: node, Expect: b.Journal, Anchor: anchor, Now: now})
	if isLost(err) {
		return false, nil
	}
	return err == nil, err
}

// UpdateTrust takes a statement of the control plane's keys. It is on disk before the
// first task is judged by it.
func (l *Local) UpdateTrust(ctx context.Context, s protocol.Signed) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trust.Node == (ids.Node{}) {
		return nil // whoever shares the process keeps the keys
	}
	next, err := l.trust.after(s)
	if err != nil {
		return err
	}
	if next.Sequence == l.trust.Sequence {
		return nil
	}
	if err := next.Save(l.Dir); err != nil {
		return err
	}
	l.trust = next
	l.Log.InfoContext(ctx, "trust statement applied", "sequence", next.Sequence, "task_keys", len(next.TaskKeys))
	return nil
}

// ReleaseKeys are those whose signature an agent's build needs.
func (l *Local) ReleaseKeys() map[string][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trust.ReleaseKeys
}
