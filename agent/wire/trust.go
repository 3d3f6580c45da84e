package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// TrustVersion is the version of a TrustStatement.
const TrustVersion = 1

// TrustStatement says which keys a node should believe from now on. The half of
// the agent that acts believes it only when it is signed by a task key that it
// believes already, is about its own node, and has no lower sequence than the
// last: the half that talks to the network cannot teach it a key.
type TrustStatement struct {
	V           int               `json:"v"`
	Kid         string            `json:"kid"` // which task key signs this
	Node        ids.Node          `json:"node_id"`
	Sequence    int64             `json:"sequence"`     // rises whenever a key comes or goes
	TaskKeys    map[string][]byte `json:"task_keys"`    // kid → Ed25519 public key
	ReleaseKeys map[string][]byte `json:"release_keys"` // the same, for builds of the agent
	IssuedAt    time.Time         `json:"issued_at"`    // RFC 3339, UTC, whole seconds
}

// Canonical is the one byte form of a statement: its JSON encoding with the
// fields in this order, keys sorted, and no spaces.
func (s TrustStatement) Canonical() ([]byte, error) {
	if s.TaskKeys == nil {
		s.TaskKeys = map[string][]byte{}
	}
	if s.ReleaseKeys == nil {
		s.ReleaseKeys = map[string][]byte{}
	}
	s.IssuedAt = s.IssuedAt.UTC().Truncate(time.Second)
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding trust statement: %w", err)
	}
	return body, nil
}

// OpenStatement returns a statement after its signature held over the very bytes
// that came, by one of the keys that are believed. Whose node it is about, and its
// sequence, the caller compares.
func OpenStatement(s Signed, keys map[string][]byte) (TrustStatement, error) {
	if len(s.Body) > MaxBody {
		return TrustStatement{}, Refuse(EnvelopeInvalid, "statement of %d bytes, at most %d", len(s.Body), MaxBody)
	}
	kid, err := signer(s, keys)
	if err != nil {
		return TrustStatement{}, err
	}
	var t TrustStatement
	if err := Strict(bytes.NewReader(s.Body), &t); err != nil {
		return TrustStatement{}, Refuse(EnvelopeInvalid, "not a trust statement: %v", err)
	}
	again, err := t.Canonical()
	switch {
	case err != nil || !bytes.Equal(again, s.Body):
		return TrustStatement{}, Refuse(EnvelopeInvalid, "the trust statement is not in its canonical form")
	case t.V != TrustVersion:
		return TrustStatement{}, Refuse(VersionUnsupported, "trust statement version %d, this build speaks %d", t.V, TrustVersion)
	case t.Kid != kid:
		return TrustStatement{}, Refuse(EnvelopeInvalid, "the statement names key %q and is signed by %q", t.Kid, kid)
	case t.Sequence <= 0 || len(t.TaskKeys) == 0:
		return TrustStatement{}, Refuse(EnvelopeInvalid, "the statement has no sequence or no task key")
	}
	return t, nil
}
