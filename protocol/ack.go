package protocol

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// ReportAck is the signed part of the response to a report. The helper accepts it only with the signature
// of a statement key and the nonce of a report of its own: the network process could otherwise make it drop its
// journal, or prevent it from enforcing the last tasks while the control plane does not respond. Its
// canonical bytes differ from those of an Envelope and a set of keys.
type ReportAck struct {
	V        int      `json:"v"`
	Kid      string   `json:"kid"`
	Node     ids.Node `json:"node_id"`
	Nonce    string   `json:"report_nonce"`
	Accepted bool     `json:"accepted"` // false: the control plane has a later report
	Boot     int64    `json:"boot"`     // of that report, if it was not accepted
	Verified bool     `json:"verified"` // the proof key of the node has signed the report
}

// Canonical returns the bytes that are signed and sent.
func (a ReportAck) Canonical() ([]byte, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encoding the response to a report: %w", err)
	}
	return body, nil
}

// OpenReportAck verifies the signature over the received bytes with keys and returns the response.
func OpenReportAck(s Signed, keys map[string][]byte) (ReportAck, error) {
	var a ReportAck
	if len(s.Body) > MaxBody {
		return a, Reject(EnvelopeInvalid, "response of %d bytes, at most %d", len(s.Body), MaxBody)
	}
	kid, err := signer(s, keys)
	if err != nil {
		return a, err
	}
	if err := Strict(bytes.NewReader(s.Body), &a); err != nil {
		return a, Reject(EnvelopeInvalid, "not a response to a report: %v", err)
	}
	again, err := a.Canonical()
	switch {
	case err != nil || !bytes.Equal(again, s.Body):
		return a, Reject(EnvelopeInvalid, "the response to a report is not in its canonical form")
	case a.V != Version:
		return a, Reject(VersionUnsupported, "response version %d, this build supports %d", a.V, Version)
	case a.Kid != kid || a.Node.UUID == uuid.Nil || !IsNonce(a.Nonce):
		return a, Reject(EnvelopeInvalid, "the response names another key, no node or no nonce")
	}
	return a, nil
}

var nonceForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// IsNonce reports whether text is 128 bits in hex.
func IsNonce(text string) bool { return nonceForm.MatchString(text) }

// origin is the part of a report that the helper signs.
type origin struct {
	Of       string   `json:"of"`
	Node     ids.Node `json:"node_id"`
	Boot     int64    `json:"boot"`
	Sequence int64    `json:"sequence"`
	Nonce    string   `json:"nonce"`
	HostKeys []string `json:"host_keys,omitempty"` // absent from reports of older agents
}

func (r *Report) origin(node ids.Node) ([]byte, error) {
	body, err := json.Marshal(origin{"report", node, r.Boot, r.Sequence, r.Nonce, r.HostKeys})
	if err != nil {
		return nil, fmt.Errorf("encoding the origin of a report: %w", err)
	}
	return body, nil
}

// SignOrigin signs boot, sequence, nonce and host keys with the proof key of the node. No other process can then
// create a later boot of the node.
func (r *Report) SignOrigin(key ed25519.PrivateKey, node ids.Node) error {
	body, err := r.origin(node)
	if err != nil {
		return err
	}
	r.Origin = ed25519.Sign(key, body)
	return nil
}

// SignedOrigin is the signature of a node under a report, in a form that is verified without other data.
type SignedOrigin struct {
	Body      []byte `json:"body"` // JSON with node_id, boot, sequence, nonce and host_keys
	Signature []byte `json:"signature"`
	Key       []byte `json:"key"` // the proof key that the node enrolled with
}

// SetSigned stores the verified signature with its bytes and its key.
func (r *Report) SetSigned(key []byte, node ids.Node) error {
	body, err := r.origin(node)
	r.Signed = &SignedOrigin{Body: body, Signature: r.Origin, Key: key}
	return err
}

// VerifyOrigin returns nil if the proof key of the node has signed boot, sequence, nonce and host keys.
func (r *Report) VerifyOrigin(key []byte, node ids.Node) error {
	body, err := r.origin(node)
	switch {
	case err != nil:
		return err
	case len(key) != ed25519.PublicKeySize:
		return errors.New("the node enrolled without a proof key")
	case !ed25519.Verify(key, body, r.Origin):
		return errors.New("the proof key of the node has not signed the report")
	}
	return nil
}
