package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/version"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/product/agentrelease/rollout"
)

// releases is what builds of the agent are published with.
type releases struct {
	keys  secret.LocalSigner
	files agentrelease.Files
}

func openReleases(c Config) (r releases, err error) {
	r.files = agentrelease.Files{Dir: filepath.Join(c.StateDir, agentrelease.BuildsDir)}
	r.keys, err = secret.OpenSigner(filepath.Join(c.StateDir, agentrelease.KeysDir))
	return r, err
}

func (r releases) store(c Config, db pg.Pool) *agentrelease.Store {
	return &agentrelease.Store{DB: db, Signer: r.keys, Naming: c.naming(), Clock: c.Clock}
}

// publishOwn publishes the build of the agent that lies beside this program, unless
// it was published already. A server without one serves as well.
func (s *Server) publishOwn(ctx context.Context) {
	api := s.rooms.sets[RoleAPI]
	path := filepath.Join(s.cfg.agentDir(), "gpuaas-agent")
	if _, err := os.Stat(path); err != nil || api == nil {
		return
	}
	r, err := s.rooms.publish(ctx, path, api.releases)
	switch {
	case errs.CodeOf(err) == errs.Conflict:
		// Of a development tree: each build says the same version.
		s.cfg.Log.InfoContext(ctx, "another build of the agent is published under this version", "component", "server", "version", version.Version, "err", err)
	case err != nil && ctx.Err() == nil:
		s.cfg.Log.WarnContext(ctx, "the agent next to the server binary was not published", "component", "server", "path", path, "err", err)
	case err == nil:
		s.cfg.Log.InfoContext(ctx, "nodes may become this agent", "component", "server", "version", r.Version, "platform", r.Platform, "expires_at", r.ExpiresAt)
	}
}

func (r *rooms) publish(ctx context.Context, path string, to *agentrelease.Store) (agentrelease.Release, error) {
	b, err := r.releases.files.Put(path)
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
	if err == nil && known.Digest == b.Digest && known.ExpiresAt.Sub(to.Clock.Now()) > agentrelease.Life/2 {
		return known, nil
	}
	b.Actor = "system:server"
	return to.Publish(ctx, b)
}

// rollouts are the workers' to know.
type rollouts struct{ *set }

var rolloutsBy = prometheus.NewDesc("gpuaas_agent_rollouts", "Agent rollouts by state.", []string{"state"}, nil)

// Describe names the figures.
func (rollouts) Describe(c chan<- *prometheus.Desc) { c <- rolloutsBy }

// Collect asks the room.
func (r rollouts) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWithin)
	defer cancel()
	list, err := r.releases.Rollouts(ctx, r.db)
	if err != nil {
		return
	}
	count := map[rollout.State]int{rollout.Rolling: 0, rollout.Done: 0, rollout.Stopped: 0, rollout.Blocked: 0}
	for _, one := range list {
		count[one.Status]++
	}
	for state, n := range count {
		c <- prometheus.MustNewConstMetric(rolloutsBy, prometheus.GaugeValue, float64(n), string(state))
	}
}
