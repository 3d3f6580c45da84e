package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/policies"
)

// SourceName is how the source that a server is started with is called, if nobody
// says otherwise.
const SourceName = "fleet"

// follower follows the sources with the rights of the loop, and has each word about
// a commit told where it is written.
func (s *Server) follower() *sync.Syncer {
	r, room := s.rooms, s.rooms.sets[RoleReconcile]
	f := &sync.Syncer{
		Desired: room.desired, Change: room.changes, Reports: &forge.Reports{DB: room.db, Jobs: r.jobs}, Root: *s.cfg.Source,
		Environment: s.cfg.Environment, Development: s.cfg.Profile.Development, Dir: s.cfg.gitDir(), Rules: r.policy.following,
		Naming: s.cfg.naming(), Figures: sync.NewMetrics(), Hints: r.hints, Log: s.cfg.Log, Clock: s.cfg.Clock,
	}
	room.desired.Record = f.Record
	s.figures.MustRegister(f.Figures)
	return f
}

func (c Config) gitDir() string {
	if c.GitDir != "" {
		return c.GitDir
	}
	return filepath.Join(c.StateDir, "git")
}

func (p policy) following() sync.Rules {
	v := p.view()
	rules := sync.Rules{Poll: seconds(v.Int(policies.GitOpsPollSeconds)), Limits: source.Limits{
		Files: int(v.Int(policies.GitOpsMaxFiles)), FileBytes: v.Int(policies.GitOpsMaxFileBytes), TreeBytes: v.Int(policies.GitOpsMaxTreeBytes),
	}}
	for _, word := range v.List(policies.GitOpsApplyRequires) {
		rules.Signed = rules.Signed || word == preview.RequiresSigned
		rules.Undiverged = rules.Undiverged || word == preview.RequiresUndiverged
	}
	return rules
}

// inUse holds back the removal of nodes that live allocations stand on: for what no
// person declares, and nobody could approve.
func (s *set) inUse(ctx context.Context, tx pgx.Tx, d desired.Difference) (v desired.Verdict, err error) {
	byNode := map[ids.Node]desired.Object{}
	var nodes []ids.Node
	for _, o := range d.Deleted {
		if o.Kind == desired.KindNode {
			n := ids.Node{UUID: o.UID.UUID}
			byNode[n], nodes = o, append(nodes, n)
		}
	}
	used, err := s.inventory.InUse(ctx, tx, nodes)
	if err != nil {
		return v, err
	}
	for _, n := range nodes {
		if slots := used[n]; slots > 0 {
			name := byNode[n].Key().String()
			v.Waits = append(v.Waits, desired.Wait{
				Reason: preview.WaitUnderAllocations, Message: fmt.Sprintf("%s is removed, but %d of its slots are in use", name, slots), Objects: []string{name},
			})
		}
	}
	return v, nil
}

// OpenSource opens the repository that a server was told to follow: a folder of
// this machine, or one elsewhere, of which a bounded copy is kept in dir.
func OpenSource(getenv func(string) string, dir string, spec source.Spec) (*source.Source, error) {
	if info, err := os.Stat(spec.Location); err == nil && info.IsDir() {
		return source.Open(spec.Location, spec.Ref, spec.Dirs...)
	}
	for name, to := range map[string]*[]byte{"GPUAAS_GIT_TOKEN": &spec.Auth.Token, "GPUAAS_GIT_SSH_KEY": &spec.Auth.SSHKey, "GPUAAS_GIT_KNOWN_HOSTS": &spec.Auth.KnownHosts} {
		text, err := secretref.FromEnv(getenv, name)
		if err != nil {
			return nil, err
		}
		*to = []byte(text)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for Git stores: %w", err)
	}
	return source.OpenStore(filepath.Join(dir, spec.Name), spec)
}
