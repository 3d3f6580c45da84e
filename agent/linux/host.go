// Package linux is a Linux host with systemd, sshd and cgroup v2, as the steps of agent/step read and
// change it.
//
// The package owns the paths in its constants and nothing else of the host: accounts with uids of
// tenants, their files below /etc/gpuaas, /run/gpuaas and /var/lib/gpuaas/homes, drop-ins with its own
// name, the nftables table "gpuaas", and one marked block of /etc/pam.d/sshd. It runs no shell and only
// the programs that command.go lists.
package linux

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

// Host is this machine. Its exported fields are set before its first use.
type Host struct {
	// Root stands before every path: empty, but in tests.
	Root string
	SMI  nvidiasmi.Tool
	// Agent is this program, as a tenant's session starts it to probe from inside.
	Agent string
	// Scrubber overwrites the memory of one GPU: an absolute path, called with the
	// GPU's UUID. Empty: a child of this program does, where its build can; where
	// nothing can, a release fails as scrub_failed.
	Scrubber string
	// SSHD is a socket through which this host's sshd is reached, for a process that
	// has no network. Empty: on loopback.
	SSHD string
	// Deny are the networks of the node's own plane: no tenant connects there.
	Deny []netip.Prefix
	// Judge corrects the health that the driver tells of its GPUs, where it is set.
	Judge func(context.Context, []protocol.GPU)
	Clock clock.Clock
	Log   *slog.Logger

	run commander // nil: real children

	// Held by whoever changes what all tenants share: sshd, nftables, systemd's
	// units, the file of dirty GPUs.
	shared sync.Mutex
	gpus   gpuCache
}

// Where things are. All but the first three are ours alone.
const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
	pamFile    = "/etc/pam.d/sshd"

	// KeysDir and PrincipalsDir hold one root-owned file for each account, named as
	// the account. They are in memory: a start of the host lets nobody in until a
	// task has looked at all that the account needs.
	KeysDir       = "/run/gpuaas/keys"
	PrincipalsDir = "/run/gpuaas/principals"
	// ProbeDir holds the key of a probe while it lasts.
	ProbeDir = "/run/gpuaas/probe"
	// UserCAFile, RevokedFile and SSHDFile are sshd's, for all tenants.
	UserCAFile  = "/etc/gpuaas/user_ca.pub"
	RevokedFile = "/etc/gpuaas/revoked.krl"
	SSHDFile    = "/etc/ssh/sshd_config.d/50-gpuaas.conf"

	// HomesDir holds each account's image, NAME.img, and where it is mounted, NAME.
	HomesDir = "/var/lib/gpuaas/homes"
	// StateDir is the host's own memory.
	StateDir = "/var/lib/gpuaas/host"
	// UnitDir is where drop-ins lie that outlive a start of the host, RunUnitDir
	// those that must not.
	UnitDir    = "/etc/systemd/system"
	RunUnitDir = "/run/systemd/system"
)

// Group that every tenant's account is in, and nobody else. It owns no file.
const Group = "gpuaas"

// MinUID is the first uid of a tenant.
const MinUID = 200000

// maxUID is the last.
const maxUID = 1<<31 - 2

// SliceOf is the slice that systemd puts everything of the uid into.
func SliceOf(uid int) string { return fmt.Sprintf("user-%d.slice", uid) }

// HomeOf is the tenant's home directory.
func HomeOf(name string) string { return "/home/" + name }

func (h *Host) path(elements ...string) string {
	return filepath.Join(h.Root, filepath.Join(elements...))
}

var userName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// tenant refuses whatever would reach beyond a tenant's account. The task was
// checked already; this is the last door before root acts.
func tenant(name string, uid int) error {
	if !userName.MatchString(name) {
		return fmt.Errorf("%q is no account name of a tenant", name)
	}
	if uid < MinUID || uid > maxUID {
		return fmt.Errorf("uid %d is not a tenant's", uid)
	}
	return nil
}
