package source

import (
	"time"

	"github.com/gpuaas/gpuaas/gitops/source/pack"
	"github.com/gpuaas/gpuaas/gitops/source/remote"
	"github.com/gpuaas/gpuaas/gitops/source/signature"
)

// Limits of a source; their values are the policy keys gitops.max_*.
type Limits struct {
	Files     int
	FileBytes int64
	TreeBytes int64
}

// DefaultLimits are the defaults of the policy keys.
func DefaultLimits() Limits { return Limits{Files: 2000, FileBytes: 1 << 20, TreeBytes: 16 << 20} }

func (l Limits) bounds() pack.Bounds { return pack.BoundsOf(l.Files, l.FileBytes, l.TreeBytes) }

// Spec describes a Git source: its repository, its credentials, and the keys that may sign its
// commits.
type Spec struct {
	Name     string // of the source, for people
	Location string // https://…, ssh://…, user@host:path, file://… or an absolute path
	Ref      string // branch, tag, full name or full hash; empty: HEAD
	Dirs     []string
	Limits   Limits // zero: DefaultLimits
	Auth     remote.Auth
	Verify   signature.Verify
	// CloneDepth is the number of commits in a new store. 0 means defaultDepth.
	CloneDepth int
	// AllowPrivate permits loopback and link-local addresses. It is for development: elsewhere such
	// an address is an attempt to reach services that only the server can reach.
	AllowPrivate bool
	// AllowFile permits a local folder as location. It is for folders that an operator names on the
	// command line, never for a location in a desired object.
	AllowFile bool
}

// Commit contains the fields of a commit. Its author has chosen all of them except Signer, which is
// verified.
type Commit struct {
	Hash        string
	Parent      string // the first; empty for a root
	Author      string
	AuthorEmail string
	Committer   string // e-mail address
	Message     string // first line, printable, at most 256 characters
	At          time.Time
	Signer      string // the verified principal; empty where nothing was verified
}

// Author signs what RevertTo writes.
type Author struct {
	Name, Email string
	At          time.Time
}

// Rollback is a commit that brings folders back to what they were.
type Rollback struct {
	Branch string
	Commit string
	Base   string // its parent
	Tree   string
}
