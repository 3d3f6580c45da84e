package sim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// LoginFile returns the path of the file with the address of the SSH server of a simulated node. The server is no part of
// the agent.
func LoginFile(stateDir string) string { return filepath.Join(stateDir, "ssh.address") }

// HostKeyFile returns the path of the file with the public host key of that server.
func HostKeyFile(stateDir string) string { return filepath.Join(stateDir, "ssh_host_ed25519.pub") }

// hostKeys returns the host key of the SSH server, if there is one.
func (d *Driver) hostKeys() []string {
	text, err := os.ReadFile(HostKeyFile(filepath.Dir(d.path)))
	if err != nil {
		return nil
	}
	return []string{strings.TrimSpace(string(text))}
}

// LoginAddress returns the address of the SSH server of the simulated node.
func (d *Driver) LoginAddress(context.Context, string) (string, error) {
	text, err := os.ReadFile(LoginFile(filepath.Dir(d.path)))
	if errors.Is(err, os.ErrNotExist) {
		return "", errors.New("this simulated node has no SSH server: start the installation with listeners on loopback only, or with --sim-shell")
	} else if err != nil {
		return "", fmt.Errorf("reading the address of the simulated SSH server: %w", err)
	}
	address, err := netip.ParseAddrPort(strings.TrimSpace(string(text)))
	if err != nil || !address.Addr().IsLoopback() {
		return "", errors.New("the address of the simulated SSH server is not on loopback")
	}
	return address.String(), nil
}
