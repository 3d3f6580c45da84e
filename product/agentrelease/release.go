// Package agentrelease owns the published builds of the agent and their rollout in rings. A build is
// accepted with a valid signature only.
package agentrelease

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/protocol"
)

// Store stores releases and their rollouts. It has the public keys only.
type Store struct {
	DB pg.Pool
	// Keys returns the release keys that the installation trusts.
	Keys   func() map[string][]byte
	Naming ids.Naming
	Clock  clock.Clock
}

// Life is the default time for which a release may be rolled out.
const Life = 90 * 24 * time.Hour

// Release is a build that nodes may become.
type Release struct {
	Version   string
	Platform  string
	Digest    string
	Size      int64
	Minimum   string
	Metadata  []byte
	Signature []byte
	Kid       string
	ExpiresAt time.Time
	CreatedAt time.Time
	CreatedBy string
}

// Params returns the parameters of the update task.
func (r Release) Params() protocol.AgentUpdateParams {
	return protocol.AgentUpdateParams{Version: r.Version, Digest: r.Digest, Size: r.Size, Metadata: r.Metadata, Signature: r.Signature}
}

// Publish stores a release that was signed elsewhere. The same build again may have a later expiry; another one
// under its version is a conflict.
func (s *Store) Publish(ctx context.Context, signed Statement, by audit.By) (Release, error) {
	ctx = pg.WithScope(ctx, pg.Platform) // what belongs to no tenant is audited so
	r, err := s.open(signed)
	if err != nil {
		return Release{}, err
	}
	if known, err := s.Find(ctx, r.Version, r.Platform); err == nil && bytes.Equal(known.Metadata, signed.Body) {
		return known, nil
	}
	b := &pgx.Batch{}
	b.Queue(putRelease, r.Version, r.Platform, r.Digest, r.Size, r.Minimum, signed.Body, signed.Signature, r.Kid, r.ExpiresAt, by.Actor).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return errs.New(errs.Conflict, "%s for %s is published, and is another build", r.Version, r.Platform).Try("give this build a version of its own")
		}
		return nil
	})
	audit.Queue(b, audit.Entry{
		By: by, Action: "agent_release.publish", Target: s.Naming.Name("", "", "agent-release", r.Version).String(),
		After: map[string]any{"platform": r.Platform, "digest": r.Digest, "minimum": r.Minimum, "expires_at": r.ExpiresAt, "kid": r.Kid},
	})
	if err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() }); err != nil {
		return Release{}, fmt.Errorf("publishing %s: %w", r.Version, err)
	}
	return s.Find(ctx, r.Version, r.Platform)
}

// open verifies a release as nodes do.
func (s *Store) open(signed Statement) (protocol.Release, error) {
	keys := s.Keys()
	if len(keys) == 0 {
		return protocol.Release{}, errs.New(errs.Conflict, "this installation trusts no release key").Try("gpuaas agent trust FILE, with the file of gpuaas agent keys begin")
	}
	r, err := protocol.OpenRelease(signed.Body, signed.Signature, keys)
	if err != nil {
		return r, errs.New(errs.SignatureInvalid, "no trusted release key has signed this release").Because(err).With("reason", err.Error())
	}
	if !s.Clock.Now().Before(r.ExpiresAt) {
		return r, errs.Invalid("expires", "the release expired at %s", r.ExpiresAt.Format(time.RFC3339)).Try("sign it again")
	}
	return r, hasMinimum(r)
}

// PublishFile stores a build and publishes its release. The release must describe this file.
func (s *Store) PublishFile(ctx context.Context, files Files, path string, signed Statement, by audit.By) (Release, error) {
	want, err := s.open(signed)
	if err != nil {
		return Release{}, err
	}
	b, err := files.Put(path)
	if err != nil {
		return Release{}, err
	}
	if b.Digest != want.Digest || b.Size != want.Size || b.Platform != want.Platform {
		return Release{}, errs.New(errs.ValidationError, "the signed release describes another build than %s", path).Try("sign this build: gpuaas agent sign %s", path)
	}
	return s.Publish(ctx, signed, by)
}

// Find reads one release. It returns not_found if the version is not published for the platform.
func (s *Store) Find(ctx context.Context, version, platform string) (Release, error) {
	list, err := collect[Release](ctx, s.DB, selectRelease, version, platform)
	switch {
	case err != nil:
		return Release{}, err
	case len(list) == 0:
		return Release{}, errs.New(errs.NotFound, "release %s is not published for %s", version, platform)
	}
	return list[0], nil
}

// Releases lists all, the newest first.
func (s *Store) Releases(ctx context.Context, q pg.Queryer) ([]Release, error) {
	return collect[Release](ctx, q, selectReleases)
}

func collect[T any](ctx context.Context, q pg.Queryer, sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("reading releases: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("reading releases: %w", err)
	}
	return list, nil
}
