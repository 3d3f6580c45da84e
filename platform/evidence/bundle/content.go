// Package bundle is the format of evidence bundles: an in-toto Statement v1 in a DSSE envelope with one Ed25519 signature. It
// needs neither a database nor a network, so that the CLI verifies a file alone. A file has exactly one valid form: Open rejects
// every file that Sign would not have written, because a byte that no signature covers could be changed unnoticed.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

const (
	// ContentType is the type of an in-toto Statement.
	ContentType = "https://in-toto.io/Statement/v1"
	// PredicateType is the version of Predicate. A change of its fields is another version.
	PredicateType = "https://github.com/gpuaas/gpuaas/docs/reference/evidence.md#v1"
	// MaxSize limits the bytes of a file. The largest bundles have the use of a whole year, in ticks of an hour.
	MaxSize = 32 << 20
)

// Kind is the kind of change that a bundle is about.
type Kind string

// The kinds.
const (
	Allocation  Kind = "allocation"   // the life of an allocation up to the request of the bundle
	Revision    Kind = "revision"     // an applied revision of a Git source
	Plan        Kind = "plan"         // an applied plan with its approvals
	KeyRotation Kind = "key_rotation" // a step of a rotation
)

// Content is an in-toto Statement v1.
type Content struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject names a part of the bundle by its digest.
type Subject struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Digest is an in-toto DigestSet.
type Digest struct {
	SHA256 string `json:"sha256"`
}

// Predicate contains the records of a change.
type Predicate struct {
	ID          uuid.UUID `json:"id"`
	Environment string    `json:"environment"`
	Number      int64     `json:"number"`             // 1 is the first bundle of the environment
	Previous    string    `json:"previous,omitempty"` // SHA-256 of the file of the bundle before; the first one has none
	Kind        Kind      `json:"kind"`
	About       string    `json:"about"` // the URN of the allocation, revision, plan or set of keys
	Cause       string    `json:"cause"` // one bundle for each
	RequestedBy string    `json:"requested_by"`
	CollectedAt time.Time `json:"collected_at"`
	Parts       []Part    `json:"parts"`
}

// Part contains the records of one phase of a change.
type Part struct {
	Name    string          `json:"name"`
	Records json.RawMessage `json:"records"` // a list; empty: the phase has no records
}

// The parts of each bundle, in their sequence.
const (
	Requested = "requested"
	Validated = "validated"
	Planned   = "planned"
	Approved  = "approved"
	Executed  = "executed"
	Observed  = "observed"
	Charged   = "charged"
	Audited   = "audited"
)

// Names lists the parts.
func Names() []string {
	return []string{Requested, Validated, Planned, Approved, Executed, Observed, Charged, Audited}
}

// Records returns the records of a part, or nothing.
func (p Predicate) Records(name string) json.RawMessage {
	for _, one := range p.Parts {
		if one.Name == name {
			return one.Records
		}
	}
	return nil
}

// newContent lists the parts as subjects.
func newContent(p Predicate) Content {
	c := Content{Type: ContentType, PredicateType: PredicateType, Predicate: p}
	for _, part := range p.Parts {
		c.Subject = append(c.Subject, Subject{Name: subjectName(p.About, part.Name), Digest: Digest{SHA256: SHA256(part.Records)}})
	}
	return c
}

func subjectName(about, part string) string { return about + "#" + part }

// SHA256 returns the digest of bytes as sha256sum prints it.
func SHA256(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
