package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/version"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/protocol"
)

// releases contains the keys and the folder of published agent builds.
type releases struct {
	keys  secret.LocalSigner
	files agentrelease.Files
}

func openReleases(c Config) (r releases, err error) {
	r.files = agentrelease.Files{Dir: filepath.Join(c.StateDir, agentrelease.BuildsDir)}
	r.keys, err = secret.OpenSigner(filepath.Join(c.StateDir, agentrelease.KeysDir))
	return r, err
}

// releaseKeySet returns the release keys as nodes accept them: signed by the key that they trust already,
// because the oldest key of a rotation signs.
func (s *Server) releaseKeySet(ctx context.Context) (protocol.Signed, error) {
	keys := s.releases.keys
	set := protocol.ReleaseKeySet{V: protocol.Version, Kid: keys.Active(), Keys: keys.Public(), IssuedAt: s.cfg.Clock.Now()}
	set.Sequence = secret.Sequence(set.Keys)
	body, err := set.Canonical()
	if err != nil {
		return protocol.Signed{}, err
	}
	signature, err := keys.Sign(ctx, set.Kid, body)
	return protocol.Signed{Kid: set.Kid, Body: body, Signature: signature}, err
}

// publishOwn publishes the agent build next to this program, unless it is already published. A
// server without one serves as well.
func (s *Server) publishOwn(ctx context.Context) {
	api := s.services[RoleAPI]
	path := filepath.Join(s.cfg.agentDir(), "gpuaas-agent")
	if _, err := os.Stat(path); err != nil || api == nil {
		return
	}
	r, err := s.releases.publish(ctx, path, api.Releases)
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

func (r releases) publish(ctx context.Context, path string, to *agentrelease.Store) (agentrelease.Release, error) {
	b, err := r.files.Put(path)
	if err != nil {
		return agentrelease.Release{}, err
	}
	if b.Version, err = agentrelease.VersionOf(ctx, path, b.Platform); err != nil {
		return agentrelease.Release{}, err
	}
	if b.Version == "" {
		return agentrelease.Release{}, fmt.Errorf("%s is for %s and cannot run here to report its version", path, b.Platform)
	}
	known, err := to.Find(ctx, b.Version, b.Platform)
	if err == nil && known.Digest == b.Digest && (known.Minimum != "" || !protocol.Ordered(b.Version)) && known.ExpiresAt.Sub(to.Clock.Now()) > agentrelease.Life/2 {
		return known, nil
	}
	b.By.Actor = "system:server"
	return to.Publish(ctx, b)
}
