package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/policies"
)

// namesEvery is the delay after which a policy for a node that was declared later takes effect.
const namesEvery = 5 * time.Second

// periods contains the report intervals of the nodes. Policies name a node by its name, and reports by its id.
type periods struct {
	policies *policies.Client
	names    func(context.Context) (map[uuid.UUID]string, error)
	log      *slog.Logger

	own atomic.Pointer[map[ids.Node]policies.Scope] // nodes with a value of their own
}

// view reads the policies of a node, or those of the platform.
func (p *periods) view(node ids.Node) policies.View {
	if own := p.own.Load(); own != nil {
		if scope, ok := (*own)[node]; ok {
			return p.policies.Latest().For(scope)
		}
	}
	return p.policies.Latest().For()
}

func reportEvery(v policies.View) time.Duration {
	return time.Duration(v.Int(policies.NodeReportSeconds)) * time.Second
}

// staleAfter is the time for which a report is evidence.
func staleAfter(v policies.View) time.Duration {
	return reportEvery(v) * time.Duration(v.Int(policies.NodeStaleAfterReports))
}

func (p *periods) hasOwn(node ids.Node) bool {
	own := p.own.Load()
	return own != nil && (*own)[node] != ""
}

// run follows the policies until ctx ends.
func (p *periods) run(ctx context.Context) {
	tick := time.NewTicker(namesEvery)
	defer tick.Stop()
	for {
		if err := p.refresh(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "report intervals of nodes not refreshed", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refresh reads the names of the nodes only if a policy is set for one.
func (p *periods) refresh(ctx context.Context) error {
	set := map[string]policies.Scope{}
	for _, at := range p.policies.Latest().ScopesOf(string(policies.NodeReportSeconds), policies.LevelNode) {
		set[at.Name()] = at
	}
	own := map[ids.Node]policies.Scope{}
	if len(set) > 0 {
		names, err := p.names(ctx)
		if err != nil {
			return err
		}
		for id, name := range names {
			if scope, ok := set[name]; ok {
				own[ids.Node{UUID: id}] = scope
			}
		}
	}
	p.own.Store(&own)
	return nil
}
