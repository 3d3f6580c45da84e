// Package linux is a Linux host OS with systemd, sshd and cgroup v2, as the steps of agent/step read and
// change it.
//
// The package owns the paths in its constants and nothing else of the host OS: accounts with uids of
// tenants, their files below /etc/gpuaas, /run/gpuaas and /var/lib/gpuaas/homes, drop-ins with its own
// name, the nftables table "gpuaas", and one marked block of /etc/pam.d/sshd. It runs no shell and only
// the programs that hostos lists.
package linux

import (
	"context"
	"log/slog"
	"sync"

	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/mount"
	"github.com/gpuaas/gpuaas/agent/linux/netrules"
	"github.com/gpuaas/gpuaas/agent/linux/nets"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

// Host is the host OS of this node. Its exported fields are set before its first use.
type Host struct {
	hostos.OS

	SMI nvidiasmi.Tool
	// Agent is this program, as a tenant's session starts it to probe from inside.
	Agent string
	// Scrubber overwrites the memory of one GPU: an absolute path, called with the
	// GPU's UUID. Empty: a child of this program does, where its build can; where
	// nothing can, a release fails as scrub_failed.
	Scrubber string
	// SSHD is a socket that reaches the sshd of this node, for a process without a network. Empty: on loopback.
	SSHD string
	// Rules restrict the network of tenants.
	Rules netrules.Rules
	// StorageKeys are the access keys of mounts. Nil: the node mounts nothing.
	StorageKeys *storagekey.Store
	// CorrectHealth replaces the health that the driver reports. It may be nil.
	CorrectHealth func(context.Context, []protocol.GPU)
	Clock         clock.Clock
	Log           *slog.Logger

	// Locked during changes of what all tenants share: sshd, nftables, the units of systemd, the file of
	// scrubbed GPUs.
	shared sync.Mutex
	gpus   gpuCache

	nets    nets.Nets
	support mount.Support

	homesMu  sync.Mutex
	newHomes map[string]bool // accounts whose home no tenant has used
}

// Paths. All but the first are written by this package only.
const (
	pamFile = "/etc/pam.d/sshd"

	// KeysDir and PrincipalsDir contain one file of root for each account, with the name of the account.
	// They are in memory: after a start of the host OS no tenant logs in until a task has checked the
	// account.
	KeysDir       = "/run/gpuaas/keys"
	PrincipalsDir = "/run/gpuaas/principals"
	// ProbeDir contains the key of a probe while the probe runs.
	ProbeDir = "/run/gpuaas/probe"
	// userCAFile, revokedFile and SSHDFile are sshd's, for all tenants.
	userCAFile  = "/etc/gpuaas/user_ca.pub"
	revokedFile = "/etc/gpuaas/revoked.krl"
	SSHDFile    = "/etc/ssh/sshd_config.d/50-gpuaas.conf"

	// StateDir is the state that this package stores on the node.
	StateDir = "/var/lib/gpuaas/host"
	// unitDir contains the drop-ins that survive a start of the host OS.
	unitDir = "/etc/systemd/system"
)

// Group is the group of all tenant accounts, and of no others. It owns no file.
const Group = "gpuaas"

// The groups of tenant accounts with more rights in sshd. An account is in neither of them until a task demands it.
const (
	directGroup  = "gpuaas-direct"  // logs in from other addresses than loopback
	forwardGroup = "gpuaas-forward" // may forward ports and sockets
)
