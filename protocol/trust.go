package protocol

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Trust contains the keys of the control plane. CAs and TaskKeys are for the network process. The helper
// trusts only Statement.
type Trust struct {
	CAs      string            `json:"cas"`       // PEM bundle; two during a roll-over
	TaskKeys map[string][]byte `json:"task_keys"` // kid → Ed25519 public key; two during a roll-over
	// Statement is a TrustStatement for this node, signed by a task key.
	Statement Signed `json:"statement,omitzero"`
	// Releases is a ReleaseKeySet, signed by a release key. An older server sends none.
	Releases Signed `json:"releases,omitzero"`
}

// TrustStatement contains the keys that a node trusts from now on. The helper accepts it only if a
// trusted key has signed it and its sequence is not below the last one. Its canonical bytes differ from
// those of an Envelope, so that no signature is valid for both.
type TrustStatement struct {
	V           int               `json:"v"`
	Kid         string            `json:"kid"` // the task key that signs
	Node        ids.Node          `json:"node_id"`
	Sequence    int64             `json:"sequence"` // rises with each change of the keys
	TaskKeys    map[string][]byte `json:"task_keys"`
	ReleaseKeys map[string][]byte `json:"release_keys"` // read at enrolment only; then a ReleaseKeySet changes them
	IssuedAt    time.Time         `json:"issued_at"`
}

// Canonical returns the bytes of a statement that are signed and sent. A statement has only one
// such form.
func (t TrustStatement) Canonical() ([]byte, error) {
	t.IssuedAt = t.IssuedAt.UTC()
	if t.TaskKeys == nil {
		t.TaskKeys = map[string][]byte{}
	}
	if t.ReleaseKeys == nil {
		t.ReleaseKeys = map[string][]byte{}
	}
	body, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encoding trust statement: %w", err)
	}
	return body, nil
}

// maxTrustKeys limits the keys of a statement: two of each type during a rotation, and as many
// again for a second rotation that overlaps.
const maxTrustKeys = 8

// OpenStatement verifies the signature over the received bytes with keys and returns the statement.
func OpenStatement(s Signed, keys map[string][]byte) (TrustStatement, error) {
	var t TrustStatement
	if len(s.Body) > MaxBody {
		return t, Reject(EnvelopeInvalid, "trust statement of %d bytes, at most %d", len(s.Body), MaxBody)
	}
	kid, err := signer(s, keys)
	if err != nil {
		return t, err
	}
	if err := Strict(bytes.NewReader(s.Body), &t); err != nil {
		return t, Reject(EnvelopeInvalid, "not a trust statement: %v", err)
	}
	again, err := t.Canonical()
	if err != nil || !bytes.Equal(again, s.Body) {
		return t, Reject(EnvelopeInvalid, "the trust statement is not in its canonical form")
	}
	return t, t.sound(kid)
}

func (t TrustStatement) sound(kid string) error {
	switch {
	case t.V != Version:
		return Reject(VersionUnsupported, "trust statement version %d, this build supports %d", t.V, Version)
	case t.Kid != kid:
		return Reject(EnvelopeInvalid, "the trust statement names key %q and is signed by %q", t.Kid, kid)
	case t.Node.UUID == uuid.Nil:
		return Reject(EnvelopeInvalid, "the trust statement names no node")
	case t.Sequence < 1:
		return Reject(EnvelopeInvalid, "the trust statement has no sequence")
	case len(t.TaskKeys) == 0 || len(t.TaskKeys) > maxTrustKeys || len(t.ReleaseKeys) > maxTrustKeys:
		return Reject(EnvelopeInvalid, "%d task keys and %d release keys, want 1 to %d", len(t.TaskKeys), len(t.ReleaseKeys), maxTrustKeys)
	}
	for _, keys := range []map[string][]byte{t.TaskKeys, t.ReleaseKeys} {
		for kid, key := range keys {
			if kid == "" || len(key) != ed25519.PublicKeySize {
				return Reject(EnvelopeInvalid, "key %q is no Ed25519 public key", kid)
			}
		}
	}
	return nil
}
