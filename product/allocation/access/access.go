// Package access decides from which addresses users log in to an allocation, and whether they may forward ports. It gives
// allocations whose last task had other rules a new generation, and hides the addresses of nodes. Nodes apply the rules.
package access

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/protocol"
)

// Rules are the policies for the logins of a project's allocations.
type Rules struct {
	DirectLogin bool // from other addresses than the node's own
	Forwarding  bool
}

// RulesFrom returns a function that reads the rules of a project. Where recordings are required, users get neither: the server
// cannot record SSH of the client.
func RulesFrom(client *policies.Client) func(ids.Tenant, ids.Project) Rules {
	return func(tenant ids.Tenant, project ids.Project) Rules {
		v := client.Latest().For(identity.TenantScopes(tenant, project)...)
		unrecorded := v.String(policies.TerminalRecording) != "required"
		return Rules{
			DirectLogin: unrecorded && v.String(policies.TerminalDirectLogin) == "allowed", Forwarding: unrecorded && v.Bool(policies.TerminalForwardingEnabled),
		}
	}
}

// Task returns the rules as a task contains them.
func (r Rules) Task() (a protocol.Access) {
	if !r.DirectLogin {
		a.LoginFrom = protocol.FromLoopback
	}
	if r.Forwarding {
		a.Forwarding = protocol.ForwardLocal
	}
	return a
}

// Service stores the rules of the last task of each allocation.
type Service struct {
	DB          pg.Pool
	Allocations *allocation.Service
	Rules       func(ids.Tenant, ids.Project) Rules
}

// mark identifies rules in the database. The empty mark means that the task had none.
func mark(a protocol.Access) string {
	return cmp.Or(a.LoginFrom, "everywhere") + "/" + cmp.Or(a.Forwarding, "none")
}

// Sent records the rules of a task for a node. nil is a task without rules, for an agent that does not know them.
func (*Service) Sent(ctx context.Context, tx pgx.Tx, id ids.Allocation, rules *protocol.Access) error {
	text := ""
	if rules != nil {
		text = mark(*rules)
	}
	if _, err := tx.Exec(ctx, setSent, id, text); err != nil {
		return fmt.Errorf("recording the login rules of %s: %w", id, err)
	}
	return nil
}

// sentRules are the rules in the last tasks for some allocations of a project.
type sentRules struct {
	Tenant  ids.Tenant
	Project ids.Project
	Mark    string
}

// outdated lists the projects with an active allocation whose last task had other rules than those of now.
func (s *Service) outdated(ctx context.Context, q pg.Queryer) (projects []sentRules, err error) {
	rows, err := q.Query(ctx, selectSent, protocol.AccessCapability)
	if err != nil {
		return nil, fmt.Errorf("looking for old login rules: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sentRules])
	if err != nil {
		return nil, fmt.Errorf("looking for old login rules: %w", err)
	}
	for _, one := range all {
		if now := mark(s.Rules(one.Tenant, one.Project).Task()); one.Mark != now {
			projects = append(projects, sentRules{one.Tenant, one.Project, now})
		}
	}
	return projects, nil
}

// Outdated reports whether Send has work.
func (s *Service) Outdated(ctx context.Context) (bool, error) {
	found, err := s.outdated(ctx, s.DB)
	return len(found) > 0, err
}

// Send gives at most some active allocations whose last task had other rules a new generation, and returns how many. The
// loop then sends the rules.
func (s *Service) Send(ctx context.Context, tx pgx.Tx, most int) (sent int, err error) {
	projects, err := s.outdated(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, one := range projects {
		rows, err := tx.Query(ctx, lockOutdated, protocol.AccessCapability, one.Project, one.Mark, most-sent)
		if err != nil {
			return 0, fmt.Errorf("looking for old login rules: %w", err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[ids.Allocation])
		if err != nil {
			return 0, fmt.Errorf("looking for old login rules: %w", err)
		}
		for _, id := range found {
			if err := s.respec(ctx, tx, id, one.Mark); err != nil {
				return 0, fmt.Errorf("sending login rules for %s: %w", id, err)
			}
		}
		sent += len(found)
	}
	return sent, nil
}

// respec writes the mark with the generation, so that the next pass does not find the allocation again.
func (s *Service) respec(ctx context.Context, tx pgx.Tx, id ids.Allocation, mark string) error {
	have, err := s.Allocations.Desired.LockUID(ctx, tx, desired.KindAllocation, ids.Object(id))
	if err != nil {
		return err
	}
	if _, err := s.Allocations.Desired.Respec(ctx, tx, desired.KindAllocation, ids.Object(id), have.Spec); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, setSent, id, mark)
	return err
}

// Login makes a certificate for an allocation. Where direct logins are denied, the result has no address of the node.
func (s *Service) Login(ctx context.Context, ch identity.Change[allocation.Login], a allocation.Allocation, publicKey string) (allocation.Login, error) {
	visible := func(l allocation.Login) allocation.Login {
		if !s.Rules(a.Tenant, a.Project).DirectLogin {
			l.Host, l.Port = "", 0
		}
		return l
	}
	if answer := ch.Answer; answer != nil {
		ch.Answer = func(l allocation.Login) identity.Reply { return answer(visible(l)) }
	}
	l, err := s.Allocations.Login(ctx, ch, a.ID, publicKey)
	return visible(l), err
}

// QueueUnrestricted adds a read of the allocations with rules that their agent is too old to apply. Its result is complete
// when b is sent.
func (s *Service) QueueUnrestricted(b *pgx.Batch, of []ids.Allocation) map[ids.Allocation]bool {
	found := map[ids.Allocation]bool{}
	b.Queue(selectUnrestricted, of, protocol.AccessCapability).Query(func(rows pgx.Rows) error {
		var id ids.Allocation
		var tenant ids.Tenant
		var project ids.Project
		_, err := pgx.ForEachRow(rows, []any{&id, &tenant, &project}, func() error {
			if s.Rules(tenant, project).Task() != (protocol.Access{}) { // what an older agent does
				found[id] = true
			}
			return nil
		})
		return err
	})
	return found
}
