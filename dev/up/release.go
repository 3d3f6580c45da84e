package up

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/server"
)

// publishAgent signs the build of the agent next to this program with a release key of its own, as the pipeline
// of a release does, and publishes it. The server has the public part only. An installation without a build
// works as well.
func (i *installation) publishAgent(ctx context.Context) {
	path, err := agentBinary()
	if err != nil {
		return
	}
	if _, err := os.Stat(path); err != nil {
		return
	}
	err = i.signAgent(ctx, path)
	switch {
	case errs.CodeOf(err) == errs.Conflict:
		// In a development tree every build has the same version.
		i.cfg.Log.InfoContext(ctx, "another build of the agent is published under this version", "component", "up", "err", err)
	case err != nil && ctx.Err() == nil:
		i.cfg.Log.WarnContext(ctx, "the agent next to this program was not published", "component", "up", "path", path, "err", err)
	}
}

func (i *installation) signAgent(ctx context.Context, path string) error {
	keys, err := i.releaseKeys(ctx)
	if err != nil {
		return err
	}
	b, err := agentrelease.Describe(path)
	if err != nil {
		return err
	}
	if b.Version, err = agentrelease.VersionOf(ctx, path, b.Platform); err != nil || b.Version == "" {
		return err
	}
	now := i.server.Services(server.RoleAPI).Clock.Now()
	known, err := i.server.Services(server.RoleAPI).Releases.Find(ctx, b.Version, b.Platform)
	if err == nil && known.Digest == b.Digest && known.ExpiresAt.Sub(now) > agentrelease.Life/2 {
		return nil
	}
	if protocol.Ordered(b.Version) {
		b.Minimum = b.Version
	}
	signed, err := agentrelease.Sign(ctx, keys, b, now)
	if err != nil {
		return err
	}
	_, err = i.server.PublishRelease(ctx, path, signed)
	return err
}

// releaseKeys opens the release key of this installation and has its database trust it.
func (i *installation) releaseKeys(ctx context.Context) (secret.LocalSigner, error) {
	dir := filepath.Join(i.cfg.Dir, "release-keys")
	old := filepath.Join(i.cfg.Dir, "secrets", "release-keys") // where servers had it
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(old, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return secret.LocalSigner{}, err
		}
	}
	keys, err := secret.OpenSigner(dir)
	if err != nil {
		return keys, err
	}
	file := filepath.Join(dir, "release-keys.json")
	signed, err := agentrelease.ReadStatement(file)
	if errors.Is(err, fs.ErrNotExist) {
		public := keys.Public()
		if signed, err = agentrelease.SignKeys(ctx, keys, public, secret.Sequence(public), i.server.Services(server.RoleAPI).Clock.Now()); err == nil {
			err = agentrelease.WriteStatement(file, signed)
		}
	}
	if err != nil {
		return keys, err
	}
	owner, err := pg.Open(ctx, i.cluster.URL(), "gpuaas-up", 1)
	if err != nil {
		return keys, err
	}
	defer owner.Close()
	_, err = secret.TrustReleaseKeys(ctx, owner, signed, audit.By{Actor: development}, "release_keys")
	return keys, err
}
