package protocol

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Proof contains the findings of the leftover scan, which is independent of the steps. The helper signs
// it. Without the signature the network process could declare a slot clean.
type Proof struct {
	Node       ids.Node       `json:"node_id"`
	Allocation ids.Allocation `json:"allocation_id"`
	Task       ids.Task       `json:"task_id"`
	Type       Type           `json:"type"` // of the task: a provisioning proves no release
	Fence      int64          `json:"fence"`
	UID        int            `json:"uid"`
	Checks     []string       `json:"checks"`    // names of what was verified, in order
	Leftovers  []string       `json:"leftovers"` // anything found that should not be there; empty is clean
	Scrubbed   []string       `json:"scrubbed"`  // GPU UUIDs whose memory was overwritten and read back
	Keys       []string       `json:"keys"`      // SHA-256 fingerprints of the keys that log in
	Probes     []ProbeResult  `json:"probes"`    // what was tried from inside the tenant's session
	SSHD       string         `json:"sshd"`      // hex SHA-256 of the configuration that sshd runs with
	At         time.Time      `json:"at"`        // the node's clock: displayed, never used for money

	Kid       string `json:"kid,omitempty"`       // which proof key: KidOf its public part
	Signature []byte `json:"signature,omitempty"` // Ed25519 over Canonical
}

// ProbeResult is the result of one attempt inside a session of a tenant.
type ProbeResult struct {
	Name     string `json:"name"` // device:/dev/nvidia1
	Expected string `json:"want"` // EPERM
	Got      string `json:"got"`
}

// Passed reports whether the attempt had the expected result.
func (r ProbeResult) Passed() bool { return r.Expected == r.Got }

// Canonical returns the signed bytes: the proof without kid and signature. Absent lists are empty, so
// that decoding and encoding do not change the bytes.
func (p Proof) Canonical() ([]byte, error) {
	p.Kid, p.Signature, p.At = "", nil, p.At.UTC().Truncate(time.Millisecond)
	for _, list := range []*[]string{&p.Checks, &p.Leftovers, &p.Scrubbed, &p.Keys} {
		if *list == nil {
			*list = []string{}
		}
	}
	if p.Probes == nil {
		p.Probes = []ProbeResult{}
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding proof: %w", err)
	}
	return body, nil
}

// Sign signs the proof. An unsigned proof is not valid.
func (p *Proof) Sign(key ed25519.PrivateKey) error {
	body, err := p.Canonical()
	if err != nil {
		return err
	}
	public, _ := key.Public().(ed25519.PublicKey) // it is one by its type
	p.Kid, p.Signature = KidOf(public), ed25519.Sign(key, body)
	return nil
}

// Verify returns nil if the proof is valid for the node and for the release of the allocation at
// fence, and otherwise the reason.
func (p *Proof) Verify(key []byte, node ids.Node, allocation ids.Allocation, fence int64) error {
	switch {
	case p == nil:
		return errors.New("the proof is missing")
	case len(key) != ed25519.PublicKeySize:
		return errors.New("the node enrolled without a key to prove by: enrol it again")
	case len(p.Signature) == 0:
		return errors.New("the proof is not signed")
	case p.Node != node || p.Allocation != allocation:
		return errors.New("the proof is of another node or allocation")
	case p.Fence != fence:
		return fmt.Errorf("the proof is of fence %d, not of %d", p.Fence, fence)
	case p.Type.Effect() != Releases:
		return fmt.Errorf("a proof of %s frees no slot", p.Type)
	case p.Kid != KidOf(key):
		return errors.New("the proof is signed by another key than the node enrolled with")
	}
	body, err := p.Canonical()
	if err != nil {
		return err
	}
	if !ed25519.Verify(key, body, p.Signature) {
		return errors.New("the signature of the proof is not valid")
	}
	return nil
}

// Clean reports whether the proof covers every one of the GPUs.
func (p *Proof) Clean(gpus []string) bool {
	if p == nil || len(p.Leftovers) > 0 {
		return false
	}
	scrubbed := make(map[string]bool, len(p.Scrubbed))
	for _, u := range p.Scrubbed {
		scrubbed[u] = true
	}
	for _, u := range gpus {
		if !scrubbed[u] {
			return false
		}
	}
	return true
}

// KidOf returns the kid of a proof key: the beginning of its digest.
func KidOf(public []byte) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}
