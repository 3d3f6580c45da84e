// Package desired owns the desired state: the objects, their generations, owners and source
// positions, and the set of due objects for the loop. It is the only package that writes them. It
// knows nothing of observed state.
package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Kind of a declared object.
type Kind string

// The kinds in the sequence in which a revision is applied. Pruning uses the reverse sequence.
const (
	KindEnvironment  Kind = "Environment"
	KindPolicy       Kind = "Policy"
	KindRole         Kind = "Role"
	KindSKU          Kind = "SKU"
	KindOSImage      Kind = "OSImage"
	KindStorageClass Kind = "StorageClass"
	KindNode         Kind = "Node"
	KindAllocation   Kind = "Allocation"
)

// Kinds lists the kinds in the sequence in which they are applied.
func Kinds() []Kind {
	return []Kind{KindEnvironment, KindPolicy, KindRole, KindSKU, KindOSImage, KindStorageClass, KindNode, KindAllocation}
}

// Owner is the side that may write an object.
type Owner string

// Owners of an object. An object has exactly one, and a write by another one is rejected.
const (
	OwnerGit Owner = "git"
	OwnerAPI Owner = "api"
)

// Source is the position of an object in its file, for the users who edit it.
type Source struct {
	Owner      Owner  `json:"owner"`
	Name       string `json:"source,omitempty"` // of the Git source; a repository may contain several
	Repository string `json:"repository,omitempty"`
	Commit     string `json:"commit,omitempty"` // full hash, or "worktree" for uncommitted files
	Path       string `json:"path,omitempty"`   // within the repository
	Line       int    `json:"line,omitempty"`
	Column     int    `json:"column,omitempty"`
}

// String is file:line:col, or the owner when there is no file.
func (s Source) String() string {
	if s.Path == "" {
		return string(s.Owner)
	}
	return fmt.Sprintf("%s:%d:%d", s.Path, s.Line, s.Column)
}

// Object is one declaration. UID, Generation, ResourceVersion, Fence and Epoch
// are given by the store and ignored by Put.
type Object struct {
	Kind        Kind              `json:"kind"`
	Scope       string            `json:"scope,omitempty"` // project id of an allocation, else empty
	Name        string            `json:"name"`            // RFC 1123 label, unique per kind and scope
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        json.RawMessage   `json:"spec"` // normalised: defaults filled in, keys sorted
	Source      Source            `json:"source"`

	UID             ids.Object `json:"uid"`
	Generation      int64      `json:"generation"`       // rises with the spec
	ResourceVersion int64      `json:"resource_version"` // rises with any write; the ETag
	Fence           int64      `json:"fence"`            // rises with any decision about an allocation
	Epoch           int64      `json:"epoch"`            // rises when a generation must be reconciled again
	SpecHash        string     `json:"spec_hash"`        // hex SHA-256 of Spec
	CreatedAt       time.Time  `json:"created_at,omitzero"`
	UpdatedAt       time.Time  `json:"updated_at,omitzero"` // of the last write
	DeletedAt       *time.Time `json:"deleted_at,omitempty"`

	// Adopt permits another owner to adopt the object until it expires.
	Adopt *Adoption `json:"adopt,omitempty"`
	// Suspended stops the reconciliation of the object until it expires.
	Suspended *Suspension `json:"suspended,omitempty"`
}

// ResourceType returns the type of the kind's objects in URNs.
func (k Kind) ResourceType() string {
	switch k {
	case KindOSImage:
		return "os-image"
	case KindStorageClass:
		return "storage-class"
	case KindEnvironment, KindPolicy, KindRole, KindSKU, KindNode, KindAllocation:
	}
	return strings.ToLower(string(k))
}

// Name identifies an object. A tombstone may share its name with a live successor.
type Name struct {
	Kind  Kind   `json:"kind"`
	Scope string `json:"scope,omitempty"`
	Name  string `json:"name"`
}

// Key is the object's name.
func (o Object) Key() Name { return Name{o.Kind, o.Scope, o.Name} }

// String is Kind/name, as people write it.
func (n Name) String() string { return string(n.Kind) + "/" + n.Name }

// Adoption names the source whose next revision may adopt an object.
type Adoption struct {
	Source string    `json:"source"`
	Until  time.Time `json:"until"`
}

// Suspension is an operator's request to stop reconciling an object.
type Suspension struct {
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	At     time.Time  `json:"at"`
	Until  *time.Time `json:"until,omitempty"` // nil: until an operator resumes it
}

// Hash is the spec hash of a normalised spec.
func Hash(spec []byte) string {
	sum := sha256.Sum256(spec)
	return hex.EncodeToString(sum[:])
}

// Finding is one fault of a declaration, at a place in its author's own file.
type Finding struct {
	Code     string `json:"code,omitempty"` // of Rules
	Path     string `json:"path"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Object   string `json:"object,omitempty"` // Kind/name when known
	Field    string `json:"field,omitempty"`  // spec.price.amountMinor
	Message  string `json:"message"`          // what is wrong
	Expected string `json:"expected,omitempty"`
}

func (f Finding) String() string {
	text := fmt.Sprintf("%s:%d:%d: ", f.Path, f.Line, f.Column)
	if f.Object != "" {
		text += f.Object + ": "
	}
	if f.Field != "" {
		text += f.Field + ": "
	}
	text += f.Message
	if f.Expected != "" {
		text += " (expected " + f.Expected + ")"
	}
	return text
}
