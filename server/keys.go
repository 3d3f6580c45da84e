package server

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/identity/reseal"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
)

// openKeys opens the keys of the roles of this process, each with the rights of its role in the database.
func (s *shared) openKeys(ctx context.Context, c Config) (err error) {
	source := keystore.Source{
		Config: c.Keys, StateDir: c.StateDir, Roles: map[string]pg.Queryer{}, Any: s.pool(RoleReconcile), Clock: c.Clock,
		Failures: func(role string) *secret.Failures {
			var db pg.Pool = s.pools[Role(role)]
			if Role(role) == RoleAPI {
				db = pg.Scoped{Pool: s.pools[RoleAPI]}
			}
			return &secret.Failures{DB: db, Actor: "system:" + role, Log: c.Log, Metric: s.failures}
		},
	}
	for role, pool := range s.pools {
		source.Roles[string(role)] = pool
	}
	if s.keys, err = keystore.Open(ctx, source); err != nil {
		return err
	}
	// The API publishes releases by their public keys.
	if pool, ok := s.pools[RoleAPI]; ok {
		s.releaseSets = &secret.KeySets{DB: pool}
		if err := s.releaseSets.Refresh(ctx); err != nil {
			return err
		}
		if len(s.releaseKeys()) == 0 && !c.Profile.Development {
			c.Log.WarnContext(ctx, "no release key is trusted: a node that enrols now accepts no update of the agent; run gpuaas agent trust first", "component", "server")
		}
	}
	return nil
}

// releaseKeys returns the public keys by which releases of the agent are accepted.
func (s *shared) releaseKeys() map[string][]byte {
	if s.releaseSets == nil {
		return nil
	}
	set, _ := s.releaseSets.Releases()
	return set.Keys
}

// refreshEvery is the time within which a running server notices a key rotation.
const refreshEvery = time.Second

// watchKeys reads keys again that an operator or another server has changed.
func (s *Server) watchKeys(ctx context.Context) error {
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
		failed := s.keys.Refresh(ctx)
		if s.releaseSets != nil {
			if err := s.releaseSets.Refresh(ctx); err != nil {
				failed["release keys"] = err
			}
		}
		for what, err := range failed {
			if ctx.Err() == nil {
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

const (
	resealEvery = 10 * time.Second
	resealRows  = 500
)

// resealFields seals stored secrets with the newest data key, while there are two. It runs in the roles api and terminal,
// which have these keys, and not as a job of the workers. Several servers share the rows by their locks.
func (s *Server) resealFields(ctx context.Context) error {
	api := s.services[RoleAPI]
	return everyReseal(ctx, func() {
		s.resealWith(ctx, s.keys.Fields, (reseal.Service{Service: api.Identity}).Reseal)
		s.resealWith(ctx, s.keys.Fields, api.StorageKeys.Reseal)
		s.resealWith(ctx, s.keys.Mounts, api.StorageKeys.ResealMounts)
		s.resealWith(ctx, s.keys.Webhooks, api.WebhookEndpoints.Reseal)
	})
}

func (s *Server) resealRecordings(ctx context.Context) error {
	return everyReseal(ctx, func() { s.resealWith(ctx, s.keys.Recordings, s.services[RoleTerminal].Recordings.Reseal) })
}

func everyReseal(ctx context.Context, do func()) error {
	t := time.NewTicker(resealEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		do()
	}
}

// resealWith seals the secrets of one purpose, while there are two data keys and the newest one seals.
func (s *Server) resealWith(ctx context.Context, keys *secret.DataKeys, reseals func(ctx context.Context, id string, limit int) (int, error)) {
	if len(keys.IDs()) < 2 || keys.Active() != keys.Newest() {
		return
	}
	n, err := reseals(ctx, keys.Active(), resealRows)
	switch {
	case err != nil && ctx.Err() == nil:
		s.cfg.Log.WarnContext(ctx, "stored secrets not sealed again", "component", "server", "err", err)
	case n > 0:
		s.cfg.Log.InfoContext(ctx, "stored secrets were sealed with the newest data key", "component", "server", "rows", n, "key", keys.Active())
	}
}

const (
	revokeEvery = 10 * time.Second
	revokeSome  = 20
)

// revokeEnded revokes the refresh tokens of ended sessions at the provider. It runs in the role api, which alone can open
// them.
func (s *Server) revokeEnded(ctx context.Context) error {
	t := time.NewTicker(revokeEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		failed, err := s.services[RoleAPI].SignIn.RevokeEnded(ctx, revokeSome)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "refresh tokens of ended sessions not revoked", "component", "server", "failed", failed, "err", err)
		}
	}
}
