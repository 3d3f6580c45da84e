package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// ReleaseKeySet contains the release keys that nodes trust from now on. Only a release key that a node
// trusts can sign it, and no server has one: a stolen server must not replace the program that runs tasks.
// Its canonical bytes differ from those of the other signed messages.
type ReleaseKeySet struct {
	V        int               `json:"v"`
	Kid      string            `json:"kid"`              // the release key that signs, one of Keys
	Sequence int64             `json:"release_sequence"` // rises with each change of the keys
	Keys     map[string][]byte `json:"release_keys"`
	IssuedAt time.Time         `json:"issued_at"`
}

// Canonical returns the bytes that are signed and sent.
func (s ReleaseKeySet) Canonical() ([]byte, error) {
	s.IssuedAt = s.IssuedAt.UTC().Truncate(time.Second)
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding release keys: %w", err)
	}
	return body, nil
}

// OpenReleaseKeySet verifies the signature over the received bytes with keys and returns the release keys.
func OpenReleaseKeySet(signed Signed, keys map[string][]byte) (ReleaseKeySet, error) {
	if len(signed.Body) > MaxBody {
		return ReleaseKeySet{}, Reject(EnvelopeInvalid, "release keys of %d bytes, at most %d", len(signed.Body), MaxBody)
	}
	kid, err := signer(signed, keys)
	if err != nil {
		return ReleaseKeySet{}, err
	}
	return readReleaseKeySet(signed, kid)
}

// FirstReleaseKeySet opens a set by its own keys, while a node enrols and when a server is given its first
// release keys.
func FirstReleaseKeySet(signed Signed) (ReleaseKeySet, error) {
	s, err := readReleaseKeySet(signed, signed.Kid)
	if err != nil {
		return s, err
	}
	return OpenReleaseKeySet(signed, s.Keys)
}

func readReleaseKeySet(signed Signed, kid string) (ReleaseKeySet, error) {
	var s ReleaseKeySet
	if err := Strict(bytes.NewReader(signed.Body), &s); err != nil {
		return s, Reject(EnvelopeInvalid, "not a set of release keys: %v", err)
	}
	if again, err := s.Canonical(); err != nil || !bytes.Equal(again, signed.Body) {
		return s, Reject(EnvelopeInvalid, "the release keys are not in their canonical form")
	}
	return s, s.sound(kid)
}

func (s ReleaseKeySet) sound(kid string) error {
	switch {
	case s.V != Version:
		return Reject(VersionUnsupported, "release keys version %d, this build supports %d", s.V, Version)
	case s.Kid != kid || s.Keys[kid] == nil:
		return Reject(EnvelopeInvalid, "the release keys name key %q, do not contain it, or are signed by %q", s.Kid, kid)
	case s.Sequence < 1:
		return Reject(EnvelopeInvalid, "the release keys have no sequence")
	}
	return soundKeys("release", s.Keys)
}
