package server

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaas/internal/pki"
)

// refreshEvery is the time within which a running server notices a key rotation.
const refreshEvery = time.Second

// watchKeys reads keys again that an operator or another server has changed.
func (s *Server) watchKeys(ctx context.Context) error {
	k := s.keys
	t := time.NewTicker(refreshEvery)
	defer t.Stop()
	var warn time.Time
	for {
		if now := s.cfg.Clock.Now(); !now.Before(warn) {
			warn = now.Add(warnEvery)
			s.warnOfEnd(ctx, now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		for what, refresh := range map[string]func(context.Context) error{"authority": k.Authority.Refresh, "task keys": k.Signer.Refresh, "user authority": k.Users.Refresh, "release keys": s.releases.keys.Refresh} {
			if err := refresh(ctx); err != nil && ctx.Err() == nil {
				// The keys in memory stay in use.
				s.cfg.Log.WarnContext(ctx, "keys not read again", "component", "server", "keys", what, "err", err)
			}
		}
	}
}

const (
	// warnFrom leaves a month for a rotation that needs an hour.
	warnFrom  = 30 * 24 * time.Hour
	warnEvery = 24 * time.Hour
)

// warnOfEnd logs when the local CA must be rotated. Other CAs have warnings of their own.
func (s *Server) warnOfEnd(ctx context.Context, now time.Time) {
	local, ok := s.keys.Authority.(*pki.Local)
	if !ok {
		return
	}
	list := local.Generations()
	newest := list[len(list)-1]
	if end := newest.Issuing.NotAfter; end.Before(now.Add(warnFrom)) {
		s.cfg.Log.WarnContext(ctx, "the authority ends soon: roll it over with gpuaas ca rotate", "component", "server", "ends", end)
	}
}

// agentDir returns the folder of agent builds. By default it is the folder of this program.
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
