package server

import (
	"context"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// signLogins returns the function that signs a key for one allocation, with a terminal.
func signLogins(users secret.UserCA) func(context.Context, ssh.PublicKey, ids.Allocation, string, time.Duration) (allocation.Login, error) {
	return func(ctx context.Context, key ssh.PublicKey, id ids.Allocation, user string, ttl time.Duration) (allocation.Login, error) {
		c, err := users.Sign(ctx, secret.Login{Key: key, Allocation: id.String(), User: user, TTL: ttl, PTY: true})
		return allocation.Login{Certificate: c.Text, Serial: c.Serial, ExpiresAt: c.NotAfter}, err
	}
}
