package serve

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// custody is where private keys are used: behind a port each.
type custody struct {
	authority secret.Authority
	signer    secret.Signer
	users     secret.UserCA
}

func openCustody(_ context.Context, c Config) (k custody, err error) {
	if k.authority, err = pki.Open(filepath.Join(c.StateDir, AuthorityDir), c.Clock); err != nil {
		return k, err
	}
	if k.signer, err = secret.OpenSigner(filepath.Join(c.StateDir, TaskKeysDir)); err != nil {
		return k, err
	}
	k.users, err = secret.OpenUserCA(filepath.Join(c.StateDir, LoginKeysDir), c.Clock)
	return k, err
}

// login signs a key for one allocation, with a terminal.
func (k custody) login(ctx context.Context, key ssh.PublicKey, id ids.Allocation, user string, ttl time.Duration) (allocation.Login, error) {
	c, err := k.users.Sign(ctx, secret.Login{Key: key, Allocation: id.String(), User: user, TTL: ttl, PTY: true})
	return allocation.Login{Certificate: c.Text, Serial: c.Serial, ExpiresAt: c.NotAfter}, err
}

// Folders of the state directory that hold keys.
const (
	AuthorityDir = "ca"
	TaskKeysDir  = "keys"
	LoginKeysDir = "login-keys"
)

// refreshEvery is within how long a roll-over that was begun beside a running
// server is noticed.
const refreshEvery = time.Second

// watchKeys notices what a person or another server did to the keys.
func (s *Server) watchKeys(ctx context.Context) error {
	k := s.rooms.custody
	t := time.NewTicker(refreshEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		for what, refresh := range map[string]func(context.Context) error{"authority": k.authority.Refresh, "task keys": k.signer.Refresh, "user authority": k.users.Refresh} {
			if err := refresh(ctx); err != nil && ctx.Err() == nil {
				// What is known goes on being used.
				s.cfg.Log.WarnContext(ctx, "keys not read again", "component", "server", "keys", what, "err", err)
			}
		}
	}
}

// agentDir is where the builds of the agent lie: beside this program, unless the
// configuration says otherwise.
func (c Config) agentDir() string {
	if c.AgentDir != "" {
		return c.AgentDir
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(self)
}
