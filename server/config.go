// Package server starts the roles of a server: it opens pools and listeners, builds the services of
// each role, and connects hints. It contains no product logic.
package server

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
)

// Role is a part of the server that may run in a process of its own.
type Role string

// The roles.
const (
	RoleAPI       Role = "api"       // REST, events, docs, sign-in, River UI
	RoleNode      Role = "node"      // the mTLS API for agents
	RoleReconcile Role = "reconcile" // the Git source, the loop
	RoleWork      Role = "work"      // River workers
	RoleRelay     Role = "relay"     // outbox to NATS
	RoleTerminal  Role = "terminal"  // websockets of terminals and SSH, connections of agents
)

// AllRoles is the default.
func AllRoles() []Role {
	return []Role{RoleAPI, RoleNode, RoleReconcile, RoleWork, RoleRelay, RoleTerminal}
}

// ParseRoles reads a comma-separated list.
func ParseRoles(s string) (roles []Role, err error) {
	for name := range strings.SplitSeq(s, ",") {
		r := Role(strings.TrimSpace(name))
		if !slices.Contains(AllRoles(), r) {
			return nil, fmt.Errorf("role %q does not exist; the roles are %v", r, AllRoles())
		}
		roles = append(roles, r)
	}
	return roles, nil
}

// DatabaseRole returns the PostgreSQL role of the server role.
func (r Role) DatabaseRole() string { return "gpuaas_" + string(r) }

// Config is the configuration of a server.
type Config struct {
	// DatabaseURL names the owner of the schema, who migrates, creates the first keys, and serves nothing. It may
	// be empty if every role has a login of its own and another server has prepared the database.
	DatabaseURL string
	// DatabaseURLs log roles in by themselves. One that is missing is reached by
	// DatabaseURL, whose user must be a member of it.
	DatabaseURLs map[Role]string
	// NATS connects to the event bus. It must not fail when the bus is away: the
	// server serves without it and catches up.
	NATS        func() (*nats.Conn, error)
	Roles       []Role
	Environment string // name of the profile
	Profile     desired.Environment

	Listen     string // of the API; port 0 means a free one
	NodeListen string
	// RelayListen accepts the connections that agents open for streams to allocations. Agents reach it at
	// RelayAdvertise; empty: the address of the listener.
	RelayListen, RelayAdvertise string
	// TerminalListen serves the websockets of terminals in a process without the API.
	TerminalListen string
	// StorageListen serves the files of projects to S3 tools; empty: off. StorageDomain is its domain name, where a
	// label before it is a bucket; empty: a bucket is in the path only.
	StorageListen, StorageDomain string

	MetricsListen string
	PprofListen   string // of profiles of this process; empty: off
	// MetricsNames are the DNS names by which the metrics and the profiles can be requested, in addition
	// to addresses and localhost.
	MetricsNames []string
	TLS          TLS // of the API listener
	// Roam lets a listener use the next port if its own is occupied.
	Roam bool
	// NodeHosts are the names and addresses at which agents reach the node API.
	NodeHosts []string

	// SignIn overrides the provider of the profile.
	SignIn SignIn
	// Payments configures the payment provider. Without a key, payments are off.
	Payments Payments

	// Keys configures where private keys are. If it is empty, PostgreSQL stores them, sealed under the
	// key-encryption key of a file in the state directory.
	Keys keystore.Config

	// Credentials contains the secrets that Git sources refer to; nil contains none.
	Credentials *secretref.Credentials

	Front    middleware.Front // the proxy before the API, if there is one
	StateDir string           // builds of the agent, and the key-encryption key
	// ObjectsDir has the bytes of stored objects where the profile names no other object store; empty: in StateDir.
	ObjectsDir string
	// AuditArchive is the folder that receives old months of the audit log before their rows are dropped. Empty: they stay.
	AuditArchive string
	// WithoutPortal serves the API without the portal.
	WithoutPortal bool
	AgentDir      string // agent builds that nodes download; empty: the folder of this binary
	GitDir        string // copies of repositories elsewhere; empty: in StateDir
	Source        *sync.Root
	Log           *slog.Logger
	// RecentLog returns the last lines of the log of this process, for support bundles; nil: there are none.
	RecentLog func() []byte
	Clock     clock.Clock
}

func (c Config) hasRole(r Role) bool { return slices.Contains(c.Roles, r) }

func (c Config) naming() ids.Naming {
	return ids.Naming{Vendor: c.Profile.Vendor, Service: c.Profile.Service, Region: c.Profile.Region}
}

func (c Config) gitDir() string {
	if c.GitDir != "" {
		return c.GitDir
	}
	return filepath.Join(c.StateDir, "git")
}
