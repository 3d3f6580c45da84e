package protocol

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"time"
)

// Trust contains the keys of the control plane. CAs, TaskKeys and StatementKeys are for the network process.
// The helper trusts only what is signed.
type Trust struct {
	CAs           string            `json:"cas"`                  // PEM bundle; two during a roll-over
	TaskKeys      map[string][]byte `json:"task_keys"`            // kid → Ed25519 public key; two during a roll-over
	StatementKeys map[string][]byte `json:"statement_keys"`       // as TaskKeys, of responses to reports
	RelayKeys     map[string][]byte `json:"relay_keys,omitempty"` // as TaskKeys, of requests for streams
	// Sets are the last KeySets, oldest first. A node that missed one follows them.
	Sets []Signed `json:"key_sets,omitempty"`
	// Releases are the last ReleaseKeySets, oldest first.
	Releases []Signed `json:"release_key_sets,omitempty"`
}

// KeySet contains the keys of the control plane that nodes trust from now on: task keys sign tasks,
// statement keys sign responses to reports, and relay keys sign requests for streams. A task key signs it, at the rotation that makes it: a server
// publishes the stored bytes and cannot make another one. Its canonical bytes differ from those of the other
// signed messages, so that no signature is valid for two.
type KeySet struct {
	V             int               `json:"v"`
	Kid           string            `json:"kid"` // the task key that signs, one of TaskKeys
	Sequence      int64             `json:"key_sequence"`
	TaskKeys      map[string][]byte `json:"task_keys"`
	StatementKeys map[string][]byte `json:"statement_keys"`
	RelayKeys     map[string][]byte `json:"relay_keys,omitempty"` // absent in sets of older servers
	IssuedAt      time.Time         `json:"issued_at"`
}

// Canonical returns the bytes of a set that are signed and sent. A set has only one such form.
func (s KeySet) Canonical() ([]byte, error) {
	s.IssuedAt = s.IssuedAt.UTC().Truncate(time.Second)
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding a set of keys: %w", err)
	}
	return body, nil
}

// maxTrustKeys limits the keys of a set: two of each type during a rotation, and as many again for a second
// rotation that overlaps.
const maxTrustKeys = 8

// OpenKeySet verifies the signature over the received bytes with the trusted task keys and returns the set.
func OpenKeySet(signed Signed, keys map[string][]byte) (KeySet, error) {
	if len(signed.Body) > MaxBody {
		return KeySet{}, Reject(EnvelopeInvalid, "set of keys of %d bytes, at most %d", len(signed.Body), MaxBody)
	}
	kid, err := signer(signed, keys)
	if err != nil {
		return KeySet{}, err
	}
	return readKeySet(signed, kid)
}

// FirstKeySet opens a set by its own keys. A node does this once, while it enrols: the connection with which
// it enrols is authenticated.
func FirstKeySet(signed Signed) (KeySet, error) {
	s, err := readKeySet(signed, signed.Kid)
	if err != nil {
		return s, err
	}
	return OpenKeySet(signed, s.TaskKeys)
}

func readKeySet(signed Signed, kid string) (KeySet, error) {
	var s KeySet
	if err := Strict(bytes.NewReader(signed.Body), &s); err != nil {
		return s, Reject(EnvelopeInvalid, "not a set of keys: %v", err)
	}
	again, err := s.Canonical()
	if err != nil || !bytes.Equal(again, signed.Body) {
		return s, Reject(EnvelopeInvalid, "the set of keys is not in its canonical form")
	}
	return s, s.sound(kid)
}

func (s KeySet) sound(kid string) error {
	switch {
	case s.V != Version:
		return Reject(VersionUnsupported, "set of keys version %d, this build supports %d", s.V, Version)
	case s.Kid != kid || s.TaskKeys[kid] == nil:
		return Reject(EnvelopeInvalid, "the set of keys names key %q, does not contain it, or is signed by %q", s.Kid, kid)
	case s.Sequence < 1:
		return Reject(EnvelopeInvalid, "the set of keys has no sequence")
	}
	for name, keys := range map[string]map[string][]byte{"task": s.TaskKeys, "statement": s.StatementKeys} {
		if err := soundKeys(name, keys); err != nil {
			return err
		}
	}
	if s.RelayKeys != nil {
		if err := soundKeys("relay", s.RelayKeys); err != nil {
			return err
		}
	}
	return s.separate()
}

// separate rejects a key for two purposes.
func (s KeySet) separate() error {
	purposes := map[string]string{}
	for name, keys := range map[string]map[string][]byte{"task": s.TaskKeys, "statement": s.StatementKeys, "relay": s.RelayKeys} {
		for kid, key := range keys {
			if other, used := purposes[string(key)]; used && other != name {
				return Reject(EnvelopeInvalid, "%s key %q is also a %s key", name, kid, other)
			}
			purposes[string(key)] = name
		}
	}
	return nil
}

func soundKeys(name string, keys map[string][]byte) error {
	if len(keys) == 0 || len(keys) > maxTrustKeys {
		return Reject(EnvelopeInvalid, "%d %s keys, want 1 to %d", len(keys), name, maxTrustKeys)
	}
	for kid, key := range keys {
		if kid == "" || len(key) != ed25519.PublicKeySize {
			return Reject(EnvelopeInvalid, "%s key %q is no Ed25519 public key", name, kid)
		}
	}
	return nil
}
