// Package agent runs a node: it enrols, polls for tasks, has the helper execute them, and reports
// the state of the node. It continues through every outage of the control plane and ends only on a
// configuration that cannot work.
//
// The agent opens all connections and accepts none from the network. It has no credential except
// its own.
package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"

	"github.com/gpuaas/gpuaas/agent/linux/netrules"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// Config configures one agent.
type Config struct {
	Server   string // https://host:port of the node API
	StateDir string // contains identity/ and journal/, and a simulated node

	// Token returns a single-use enrolment token. The agent calls it if it has no identity or the
	// certificate has expired. Nil means that an operator must act.
	Token func(context.Context) (string, error)
	// CA is the PEM bundle that verifies the server at enrolment. CAFingerprint, the hex SHA-256 of its
	// root certificates, separated by commas, replaces it.
	CA            []byte
	CAFingerprint string

	Driver   string // sim or nvidia
	Profile  string // of a simulated node
	SMI      string // absolute path of nvidia-smi, or empty for where packages put it
	Hostname string
	Version  string // of this build
	// Self is the path of this program, which children run to probe the host OS; empty:
	// probes run in this process.
	Self string

	Scrub string               // absolute path of what overwrites a GPU's memory
	Deny  []netip.Prefix       // networks that tenants must not reach, in addition to those that are always closed
	Allow []netrules.Reachable // exceptions to both

	// Where the halves are apart: the helper's socket, who may call it and who it
	// must be, and where the journal's anchor lies.
	Socket    string
	PeerUID   int // of the network process
	PeerGID   int // of the group that may open the socket
	HelperUID int // of the helper
	Anchor    string
	// Lib is the folder of the agent builds. Empty means defaultLib.
	Lib  string
	SSHD string // socket through which the helper reaches sshd; empty: on loopback
	// StatusSocket and Metrics, a loopback address, serve local clients; empty: not served.
	StatusSocket string
	Metrics      string

	Log   *slog.Logger
	Clock clock.Clock
}

// The drivers.
const (
	DriverSim    = "sim"
	DriverNVIDIA = "nvidia"
)

func (c Config) check() error {
	switch {
	case c.StateDir == "" || c.Server == "":
		return errors.New("agent: server and state directory are needed")
	case len(c.CA) == 0 && c.CAFingerprint == "":
		return errors.New("agent: a CA file or its fingerprint is needed")
	case c.Driver != DriverSim && c.Driver != DriverNVIDIA:
		return fmt.Errorf("agent: driver %q is neither %s nor %s", c.Driver, DriverSim, DriverNVIDIA)
	case c.Driver == DriverSim && c.Profile == "":
		return errors.New("agent: a simulated node needs a profile")
	case c.Log == nil:
		return errors.New("agent: a logger is needed")
	case c.Metrics != "" && !loopback(c.Metrics):
		return fmt.Errorf("agent: metrics are served on loopback only, not on %q", c.Metrics)
	}
	return nil
}

func loopback(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().IsLoopback()
}

func (c Config) identityDir() string { return filepath.Join(c.StateDir, "identity") }
func (c Config) journalDir() string  { return filepath.Join(c.StateDir, "journal") }

// firstContact verifies the server by the data that the operator has entered.
func (c Config) firstContact() (*tls.Config, error) {
	if len(c.CA) > 0 {
		return pki.ClientTLS(c.CA, nil, c.Clock)
	}
	return pki.PinnedTLS(c.CAFingerprint, c.Clock), nil
}
