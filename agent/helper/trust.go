package helper

import (
	"bytes"
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

// TrustState contains the keys whose tasks the helper executes, and the node that it is. Root writes the
// first one at enrolment. After that only a signed set of keys changes it: task, statement and relay keys by a task
// key that it already contains, and release keys by such a release key. A stolen task key cannot replace the
// agent, and a stolen statement key changes no key.
type TrustState struct {
	Node    ids.Node  `json:"node_id"`
	Journal uuid.UUID `json:"journal_id"` // zero until the first one is made
	// Sequence of the last KeySet.
	Sequence int64             `json:"key_sequence"`
	TaskKeys map[string][]byte `json:"task_keys"`
	// StatementKeys sign responses to reports and nothing else.
	StatementKeys map[string][]byte `json:"statement_keys"`
	// RelayKeys sign requests for streams and nothing else.
	RelayKeys   map[string][]byte `json:"relay_keys,omitempty"`
	ReleaseKeys map[string][]byte `json:"release_keys"`
	// ReleaseSequence is that of the last ReleaseKeySet.
	ReleaseSequence int64 `json:"release_sequence,omitempty"`
}

const trustFile = "belief.json"

// ErrNotEnrolled means that root has not stored a trust state.
var ErrNotEnrolled = errors.New("this node is not enrolled: run gpuaas-agent install with a token")

// LoadTrustState reads the trust state in dir.
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

// Save replaces the trust state in dir.
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

// FirstTrustState returns the trust state that follows from the reply to an enrolment. The journal of
// the same node stays valid.
func FirstTrustState(dir string, node ids.Node, trust protocol.Trust) (TrustState, error) {
	b := TrustState{Node: node, TaskKeys: trust.TaskKeys}
	if before, err := LoadTrustState(dir); err == nil && before.Node == node {
		b.Journal = before.Journal
	}
	b.StatementKeys, b.RelayKeys = trust.StatementKeys, trust.RelayKeys
	if n := len(trust.Sets); n > 0 {
		set, err := protocol.FirstKeySet(trust.Sets[n-1])
		if err != nil {
			return b, err
		}
		b = b.with(set)
	}
	if n := len(trust.Releases); n > 0 {
		set, err := protocol.FirstReleaseKeySet(trust.Releases[n-1])
		if err != nil {
			return b, err
		}
		b.ReleaseSequence, b.ReleaseKeys = set.Sequence, set.Keys
	}
	return b, nil
}

// after returns the trust state after a set of keys.
func (b TrustState) after(s protocol.Signed) (TrustState, error) {
	t, err := protocol.OpenKeySet(s, b.TaskKeys)
	switch {
	case err != nil:
		return b, err
	case t.Sequence < b.Sequence:
		return b, protocol.Reject(protocol.Replayed, "set of keys %d is older than %d", t.Sequence, b.Sequence)
	case t.Sequence == b.Sequence && (!sameKeys(b.TaskKeys, t.TaskKeys) || !sameKeys(b.StatementKeys, t.StatementKeys) || !sameKeys(b.RelayKeys, t.RelayKeys)):
		return b, protocol.Reject(protocol.FenceConflict, "two sets of keys are number %d", t.Sequence)
	}
	return b.with(t), nil
}

func (b TrustState) with(s protocol.KeySet) TrustState {
	b.Sequence, b.TaskKeys, b.StatementKeys, b.RelayKeys = s.Sequence, s.TaskKeys, s.StatementKeys, s.RelayKeys
	return b
}

// afterReleases returns the trust state after a set of release keys.
func (b TrustState) afterReleases(s protocol.Signed) (TrustState, error) {
	t, err := protocol.OpenReleaseKeySet(s, b.ReleaseKeys)
	switch {
	case err != nil:
		return b, err
	case t.Sequence < b.ReleaseSequence:
		return b, protocol.Reject(protocol.Replayed, "release keys %d are older than %d", t.Sequence, b.ReleaseSequence)
	case t.Sequence == b.ReleaseSequence && !sameKeys(b.ReleaseKeys, t.Keys):
		return b, protocol.Reject(protocol.FenceConflict, "two sets of release keys are number %d", t.Sequence)
	}
	b.ReleaseSequence, b.ReleaseKeys = t.Sequence, t.Keys
	return b, nil
}

// applySets applies sets of keys, oldest first. A set that is not signed by a trusted key or is older than the
// state changes nothing: the node has followed it before. The last one must have been applied.
func (b TrustState) applySets(sets []protocol.Signed, apply func(TrustState, protocol.Signed) (TrustState, error)) (TrustState, error) {
	if len(sets) == 0 {
		return b, protocol.Reject(protocol.EnvelopeInvalid, "there is no set of keys")
	}
	var err error
	for _, s := range sets[max(0, len(sets)-maxSets):] {
		var next TrustState
		if next, err = apply(b, s); err == nil {
			b = next
		}
	}
	return b, err
}

// maxSets limits the signatures that one call verifies.
const maxSets = 16

func sameKeys(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// reloadTrust reads the trust state with the keys that verify tasks.
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
	l.Statements = func() map[string][]byte {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.trust.StatementKeys
	}
	l.Relays = func() map[string][]byte {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.trust.RelayKeys
	}
	return nil
}

// storeReport adds the first journal to the trust state.
func (l *Local) storeReport(j *journal.Journal) error {
	if l.trust.Node == (ids.Node{}) || j == nil || l.trust.Journal == j.ID() {
		return nil
	}
	l.trust.Journal = j.ID()
	return l.trust.Save(l.Dir)
}

// BootstrapTrust writes the first trust state. It deletes a journal that was lost, because an operator
// has enrolled the node again.
func BootstrapTrust(dir, anchor string, b TrustState, now time.Time) error {
	_, err := journal.Open(journal.Options{Dir: dir, Node: b.Node, Expect: b.Journal, Anchor: anchor, Now: now, Enrolled: true})
	if isLost(err) {
		b.Journal, err = uuid.Nil, journal.Wipe(dir, anchor)
	}
	if err != nil {
		return err
	}
	return b.Save(dir)
}

// HasState reports whether the trust state and the journal of the node exist.
func HasState(dir, anchor string, node ids.Node, now time.Time) (bool, error) {
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

// UpdateTrust applies sets of the control plane's keys. The result is on disk before the first task is
// verified by it: after a crash the helper would otherwise accept keys that were removed.
func (l *Local) UpdateTrust(ctx context.Context, sets []protocol.Signed) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trust.Node == (ids.Node{}) {
		return nil // the network process in the same process has the keys
	}
	next, err := l.trust.applySets(sets, TrustState.after)
	if next.Sequence == l.trust.Sequence {
		return err
	}
	if err := next.Save(l.Dir); err != nil {
		return err
	}
	l.trust = next
	l.Log.InfoContext(ctx, "set of keys applied", "sequence", next.Sequence, "task_keys", len(next.TaskKeys), "statement_keys", len(next.StatementKeys), "relay_keys", len(next.RelayKeys))
	return err
}

// UpdateReleaseKeys applies sets of release keys. The result is on disk before the first build is verified
// by it.
func (l *Local) UpdateReleaseKeys(ctx context.Context, sets []protocol.Signed) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trust.Node == (ids.Node{}) {
		return nil // a node in one process does not replace itself
	}
	next, err := l.trust.applySets(sets, TrustState.afterReleases)
	if next.ReleaseSequence == l.trust.ReleaseSequence {
		return err
	}
	if err := next.Save(l.Dir); err != nil {
		return err
	}
	l.trust = next
	l.Log.InfoContext(ctx, "release keys applied", "sequence", next.ReleaseSequence, "release_keys", len(next.ReleaseKeys))
	return err
}

// ReleaseKeys returns the keys that sign agent releases.
func (l *Local) ReleaseKeys() map[string][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trust.ReleaseKeys
}
