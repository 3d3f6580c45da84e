// Package agentrelease owns the published builds of the agent and their rollout in rings. A build is
// accepted with a valid signature only.
package agentrelease

import (
	"cmp"
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

// Signer signs releases with a release key.
type Signer interface {
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
}

// Store stores releases and their rollouts.
type Store struct {
	DB     pg.Pool
	Signer Signer
	Naming ids.Naming
	Clock  clock.Clock
}

// Life is the default time for which a release may be rolled out.
const Life = 90 * 24 * time.Hour

// Build is a published build of the agent.
type Build struct {
	Version  string
	Platform string // linux/amd64
	Digest   string // SHA-256, hex
	Size     int64
	Minimum  string
	Life     time.Duration // Life when zero
	By       audit.By
}

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

// Publish signs a build and stores what was promised of it. The same build again
// is promised for longer; another one under its version is a conflict.
func (s *Store) Publish(ctx context.Context, p Build) (Release, error) {
	ctx = pg.WithScope(ctx, pg.Platform) // what belongs to no tenant is audited so
	now := s.Clock.Now().Truncate(time.Second)
	minimum, err := s.minimum(ctx, p)
	if err != nil {
		return Release{}, err
	}
	r := protocol.Release{
		V: protocol.ReleaseVersion, Kid: s.Signer.Active(), Version: p.Version, Platform: p.Platform, Digest: p.Digest, Size: p.Size,
		Minimum: minimum, IssuedAt: now, ExpiresAt: now.Add(cmp.Or(p.Life, Life)),
	}
	if err := r.Sound(); err != nil {
		return Release{}, errs.New(errs.ValidationError, "this build cannot be published").Because(err).With("reason", err.Error())
	}
	if p.Minimum != "" && !protocol.Ordered(p.Version) {
		return Release{}, errs.New(errs.ValidationError, "a version that is not ordered has no minimum").At("minimum").Try("name versions as v1.2.3")
	}
	metadata, err := r.Canonical()
	if err != nil {
		return Release{}, err
	}
	signature, err := s.Signer.Sign(ctx, r.Kid, metadata)
	if err != nil {
		return Release{}, fmt.Errorf("signing release: %w", err)
	}
	b := &pgx.Batch{}
	b.Queue(putRelease, r.Version, r.Platform, r.Digest, r.Size, r.Minimum, metadata, signature, r.Kid, r.ExpiresAt, p.By.Actor).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return errs.New(errs.Conflict, "%s for %s is published, and is another build", r.Version, r.Platform).Try("give this build a version of its own")
		}
		return nil
	})
	audit.Queue(b, audit.Entry{
		By: p.By, Action: "agent_release.publish", Target: s.Naming.Name("", "", "agent-release", r.Version).String(),
		After: map[string]any{"platform": r.Platform, "digest": r.Digest, "minimum": r.Minimum, "expires_at": r.ExpiresAt},
	})
	if err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() }); err != nil {
		return Release{}, fmt.Errorf("publishing %s: %w", r.Version, err)
	}
	return s.Find(ctx, r.Version, r.Platform)
}

// minimum returns the lowest version that a node with this build may install later. By default it is the
// published version before it, so that a node can go back by one release and not further.
func (s *Store) minimum(ctx context.Context, p Build) (string, error) {
	if p.Minimum != "" || !protocol.Ordered(p.Version) {
		return p.Minimum, nil
	}
	rows, err := s.DB.Query(ctx, selectVersions, p.Platform)
	if err != nil {
		return "", fmt.Errorf("reading releases: %w", err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", fmt.Errorf("reading releases: %w", err)
	}
	before := ""
	for _, v := range versions {
		if protocol.Ordered(v) && !protocol.AtLeast(v, p.Version) {
			before = protocol.Higher(before, v)
		}
	}
	return cmp.Or(before, p.Version), nil
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
