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

// Spec says which repository to follow, and whom to believe about it.
type Spec struct {
	Name     string // of the source, for people
	Location string // https://…, ssh://…, user@host:path, file://… or an absolute path
	Ref      string // branch, tag, full name or full hash; empty: HEAD
	Dirs     []string
	Limits   Limits // zero: DefaultLimits
	Auth     remote.Auth
	Verify   signature.Verify
	// CloneDepth is how many commits a new store begins with; 0: defaultDepth.
	CloneDepth int
	// AllowPrivate lets the address be one of this machine or of its link. For
	// development: elsewhere such an address is somebody's attempt to reach what only
	// the server can.
	AllowPrivate bool
	// AllowFile lets the location be a folder of this machine. For what an operator
	// names on the command line; never for what a repository declares.
	AllowFile bool
}

// Commit is what a commit says about itself. All but Signer is its author's word.
type Commit struct {
	Hash        string
	Parent      string // the first; empty for a root
	Author      string
	AuthorEmail string
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
