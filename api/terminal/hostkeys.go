package terminal

import (
	"net"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hostkeys"
)

// checkHostKey makes c accept only the keys that the node has reported. The helper of the node has signed the report. Without
// the comparison, another program of the node could respond in place of its SSH server. seen receives the fingerprint.
func checkHostKey(c *ssh.ClientConfig, reported []string, seen *string) error {
	keys := hostkeys.Parse(reported)
	if len(keys) == 0 {
		return errs.New(errs.Unavailable, "the node has reported no SSH host key").Try("repeat it after its next report, or have an operator update its agent")
	}
	c.HostKeyAlgorithms = keys.Algorithms()
	c.HostKeyCallback = func(_ string, _ net.Addr, key ssh.PublicKey) error {
		*seen = ssh.FingerprintSHA256(key)
		if !keys.Has(key) {
			return errs.New(errs.Unavailable, "the node presents the SSH host key %s, which it has not reported", *seen).
				Try("repeat it after its next report, or report it to an operator")
		}
		return nil
	}
	return nil
}
