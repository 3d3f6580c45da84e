package server

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/version"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/product/agentrelease"
)

// publishOwn publishes the agent build next to this program, and waits until ctx ends: a restore ends it, and the confirmation
// repeats it.
func (s *Server) publishOwn(ctx context.Context) error {
	s.publishBuild(ctx)
	<-ctx.Done()
	return nil
}

// publishBuild publishes a build if a file next to it has a release that a trusted key has signed. A server without one serves
// as well.
func (s *Server) publishBuild(ctx context.Context) {
	api := s.services[RoleAPI]
	path := filepath.Join(s.cfg.agentDir(), "gpuaas-agent")
	if _, err := os.Stat(path); err != nil || api == nil {
		return
	}
	statement, err := agentrelease.ReadStatement(path + agentrelease.StatementSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var r agentrelease.Release
	if err == nil {
		r, err = s.PublishRelease(ctx, path, statement)
	}
	switch {
	case errs.CodeOf(err) == errs.Conflict:
		// In a development tree every build has the same version.
		s.cfg.Log.InfoContext(ctx, "another build of the agent is published under this version", "component", "server", "version", version.Version, "err", err)
	case err != nil && ctx.Err() == nil:
		s.cfg.Log.WarnContext(ctx, "the agent next to the server binary was not published", "component", "server", "path", path, "err", err)
	case err == nil:
		s.cfg.Log.InfoContext(ctx, "nodes may become this agent", "component", "server", "version", r.Version, "platform", r.Platform, "expires_at", r.ExpiresAt)
	}
}

// PublishRelease publishes a build of the agent with its signed release. The server signs none.
func (s *Server) PublishRelease(ctx context.Context, path string, signed agentrelease.Statement) (agentrelease.Release, error) {
	if err := s.releaseSets.Refresh(ctx); err != nil {
		return agentrelease.Release{}, err
	}
	return s.services[RoleAPI].Releases.PublishFile(ctx, s.builds, path, signed, audit.By{Actor: "system:server"})
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
