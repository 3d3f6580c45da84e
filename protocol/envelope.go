package protocol

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// MaxBody limits an envelope. It is several times the size of a hundred public keys of the longest
// type.
const MaxBody = 128 << 10

// RejectedError is a rejection with a code for programs and a message for operators.
type RejectedError struct {
	Code    RejectReason
	Message string
}

func (e *RejectedError) Error() string { return string(e.Code) + ": " + e.Message }

// Reject returns a rejection.
func Reject(code RejectReason, format string, args ...any) error {
	return &RejectedError{code, fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of a rejection, or an empty string.
func CodeOf(err error) RejectReason {
	if r, ok := errors.AsType[*RejectedError](err); ok {
		return r.Code
	}
	return ""
}

// Canonical returns the bytes of an envelope that are signed and sent. An envelope has only one
// such form.
func (e Envelope) Canonical() ([]byte, error) {
	if e.Slots == nil {
		e.Slots = []string{}
	}
	e.NotBefore, e.ExpiresAt = e.NotBefore.UTC(), e.ExpiresAt.UTC()
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding envelope: %w", err)
	}
	return body, nil
}

// Open verifies the signature over the received bytes and returns the envelope. keys are the trusted
// task keys by kid.
func Open(s Signed, keys map[string][]byte) (Envelope, error) {
	if len(s.Body) > MaxBody {
		return Envelope{}, Reject(EnvelopeInvalid, "envelope of %d bytes, at most %d", len(s.Body), MaxBody)
	}
	kid, err := signer(s, keys)
	if err != nil {
		return Envelope{}, err
	}
	e, err := parse(s.Body)
	if err != nil {
		return Envelope{}, err
	}
	if e.Kid != kid {
		return Envelope{}, Reject(EnvelopeInvalid, "envelope names key %q and is signed by %q", e.Kid, kid)
	}
	return e, nil
}

func signer(s Signed, keys map[string][]byte) (kid string, err error) {
	if s.Kid != "" {
		key, ok := keys[s.Kid]
		if !ok {
			return "", Reject(KeyUnknown, "task key %q is unknown", s.Kid)
		}
		keys = map[string][]byte{s.Kid: key}
	}
	for kid, key := range keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, s.Body, s.Signature) {
			return kid, nil
		}
	}
	if len(keys) == 0 {
		return "", Reject(KeyUnknown, "no task key is known")
	}
	return "", Reject(SignatureInvalid, "the signature of the envelope is not valid")
}

// parse decodes signed bytes and compares their encoding with the original. The comparison rejects
// another sequence, spaces, duplicate names, names in another case, numbers in another form and trailing
// data.
func parse(body []byte) (Envelope, error) {
	var version struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(body, &version); err != nil {
		return Envelope{}, Reject(EnvelopeInvalid, "not an envelope: %v", err)
	}
	if version.V != Version {
		return Envelope{}, Reject(VersionUnsupported, "envelope version %d, this build supports %d", version.V, Version)
	}
	var e Envelope
	if err := Strict(bytes.NewReader(body), &e); err != nil {
		return Envelope{}, Reject(EnvelopeInvalid, "not an envelope: %v", err)
	}
	again, err := e.Canonical()
	if err != nil || !bytes.Equal(again, body) {
		return Envelope{}, Reject(EnvelopeInvalid, "the envelope is not in its canonical form")
	}
	return e, e.sound()
}

// sound checks the rules for envelopes of every type.
func (e Envelope) sound() error {
	switch {
	case e.Task.UUID == uuid.Nil || e.Node.UUID == uuid.Nil:
		return Reject(EnvelopeInvalid, "the envelope names no task or no node")
	case e.Fence < 0 || e.Generation < 0 || e.Attempt < 0:
		return Reject(EnvelopeInvalid, "fence, generation or attempt is negative")
	case !e.NotBefore.Before(e.ExpiresAt):
		return Reject(EnvelopeInvalid, "the envelope expires at or before its beginning")
	case !slices.IsSorted(e.Slots) || len(slices.Compact(slices.Clone(e.Slots))) != len(e.Slots):
		return Reject(EnvelopeInvalid, "slots are not sorted, or one is named twice")
	}
	return e.ordered()
}

// ordered checks that the envelope has the fence that its type needs. A read-only task changes nothing, so
// so its sequence among other tasks does not matter.
func (e Envelope) ordered() error {
	row, exists := e.Type.row()
	hasAllocation := e.Allocation != ids.Allocation{}
	switch {
	case !exists || row.ReadOnly:
		return nil
	case row.Scope == ScopeNode && (hasAllocation || e.Fence == 0):
		return Reject(EnvelopeInvalid, "%s needs the node's fence and no allocation", e.Type)
	case row.Scope == ScopeAllocation && (!hasAllocation || e.Fence == 0):
		return Reject(EnvelopeInvalid, "%s needs an allocation and a fence", e.Type)
	}
	return nil
}

// earlyBy is the tolerated lead of the clock of the control plane over the clock of the node. Acting
// early is harmless. There is no tolerance at the end, because acting late is not.
const earlyBy = 5 * time.Minute

// Fresh returns an error if the envelope is not valid at now.
func (e Envelope) Fresh(now time.Time) error {
	switch {
	case now.Add(earlyBy).Before(e.NotBefore):
		return Reject(NotYetValid, "valid from %s, the time of this node is %s", e.NotBefore.Format(time.RFC3339), now.Format(time.RFC3339))
	case !now.Before(e.ExpiresAt):
		return Reject(Expired, "expired at %s, the time of this node is %s", e.ExpiresAt.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	return nil
}

// Backdate is subtracted from the time of signing for NotBefore. A node whose clock is behind by less
// accepts the task at once.
const Backdate = 5 * time.Minute

// SignedBefore reports whether the envelope was signed before t. The times are of two clocks, so
// the error of both clocks affects the result.
func (e Envelope) SignedBefore(t time.Time) bool { return e.SignedAt().Before(t) }

// SignedAt is the time of the signature, by the clock of the signer.
func (e Envelope) SignedAt() time.Time { return e.NotBefore.Add(Backdate) }

// Strict decodes one JSON value and rejects unknown fields and trailing data.
func Strict(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data follows the value")
	}
	return nil
}
