package rest_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/slots/place"
)

var t0 = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// people is an identity room of a few people who are known by their tokens.
type people struct {
	rest.Identity // what no test asks
	tenancy

	project, other ids.Project
	tenant         ids.Tenant

	mu       sync.Mutex
	sessions map[string]ids.User
	logout   error // what signing out answers
	away     bool  // nobody can be looked up
	replies  map[string]reply
	looked   int // for a reply
	keys     []identity.SSHKey
	store    *identity.Service // keeps the replies instead of replies, where there is one
}

type reply struct {
	identity.Reply

	hash [32]byte
}

func newPeople() *people {
	p := &people{
		project: ids.New[ids.Project](), other: ids.New[ids.Project](), tenant: ids.New[ids.Tenant](),
		sessions: map[string]ids.User{}, replies: map[string]reply{},
	}
	p.tenancy = newTenancy(p)
	return p
}

// The tokens; each person's role is in its name.
const (
	tokenOwner    = "owner"
	tokenMember   = "member"
	tokenStranger = "stranger" // of the tenant, in no project
	tokenOperator = "operator"
	tokenAdmin    = "admin"
	tokenProgram  = "program" // without a scope
	tokenReader   = "reader"  // the same, with allocations:read
)

var robot = ids.New[ids.ServiceAccount]()

var users = map[string]ids.User{
	tokenOwner: ids.New[ids.User](), tokenMember: ids.New[ids.User](), tokenStranger: ids.New[ids.User](),
	tokenOperator: ids.New[ids.User](), tokenAdmin: ids.New[ids.User](),
}

func (p *people) caller(token string) identity.Caller {
	c := identity.Caller{User: users[token], Name: token, Email: token + "@dev.localhost", Role: "user", Tenant: p.tenant, TenantName: "dev", TenantRole: "member"}
	switch token {
	case tokenOwner:
		c.TenantRole = "owner"
	case tokenOperator, tokenAdmin:
		c.Role, c.TenantRole = token, ""
	}
	return c
}

func (p *people) Authenticate(_ context.Context, token string) (identity.Caller, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return identity.Caller{}, errors.New("the database is away")
	}
	if token == tokenProgram || token == tokenReader {
		var within policies.Scopes
		if token == tokenReader {
			within, _ = policies.ParseScopes([]string{"allocations:read"})
		}
		return identity.Caller{Scopes: within, ServiceAccount: robot, Tenant: p.tenant, TenantName: "dev", Project: p.project, Limited: true}, nil
	}
	if user, ok := p.sessions[token]; ok {
		for name, id := range users {
			if id == user {
				return p.caller(name), nil
			}
		}
	}
	switch {
	case token == "":
		return identity.Caller{}, errs.New(errs.TokenMissing, "this request needs a token")
	case token == "old":
		return identity.Caller{}, errs.New(errs.TokenExpired, "the token has expired")
	case users[token] == ids.User{}:
		return identity.Caller{}, errs.New(errs.TokenInvalid, "the token is not valid")
	}
	return p.caller(token), nil
}

func (p *people) InProject(_ context.Context, c identity.Caller, asked string) (identity.Caller, error) {
	switch {
	case asked == p.other.String():
		c.Project = p.other
	case asked == "" || asked == "default" || asked == p.project.String():
		c.Project = p.project
	case p.known(asked) != (ids.Project{}):
		c.Project = p.known(asked)
	default:
		return identity.Caller{}, errs.New(errs.NotFound, "no such project")
	}
	switch {
	case c.ServiceAccount == robot && c.Project == p.project:
	case c.TenantRole == "owner":
		c.ProjectRole = "admin"
	case c.Name == tokenMember:
		c.ProjectRole = "member"
	default:
		return identity.Caller{}, errs.New(errs.Forbidden, "you are not a member of this project")
	}
	return c, nil
}

func (p *people) Replay(ctx context.Context, k identity.Key) (identity.Reply, bool, error) {
	if p.store != nil {
		return p.store.Replay(ctx, k)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked++
	r, ok := p.replies[k.Method+k.Route+k.Key]
	if ok && r.hash != k.BodyHash {
		return identity.Reply{}, false, errs.New(errs.IdempotencyKeyReused, "this idempotency key was used with another body")
	}
	return r.Reply, ok, nil
}

// keep is what a use-case does with a key in its transaction.
func (p *people) keep(ctx context.Context, k identity.Key, answer func(allocation.Allocation) identity.Reply, a allocation.Allocation) error {
	if k.Key == "" {
		return nil
	}
	if p.store != nil {
		b := &pgx.Batch{}
		p.store.QueueKey(b, k, answer(a))
		return p.store.DB.SendBatch(ctx, b).Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.replies[k.Method+k.Route+k.Key]; ok {
		return errs.New(errs.IdempotencyInFlight, "a request with this key is at work")
	}
	p.replies[k.Method+k.Route+k.Key] = reply{answer(a), k.BodyHash}
	return nil
}

func (p *people) AddSSHKey(_ context.Context, ch identity.Change[identity.SSHKey], name, line string) (identity.SSHKey, error) {
	return effectOf(p, ch, func() (identity.SSHKey, error) {
		k := identity.SSHKey{ID: ids.New[ids.SSHKey](), Name: name, PublicKey: line, Fingerprint: "SHA256:x", CreatedAt: t0}
		p.keys = append(p.keys, k)
		return k, nil
	})
}

func (p *people) SSHKeys(_ context.Context, _ identity.Caller, after ids.SSHKey, limit int) ([]identity.SSHKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []identity.SSHKey
	for _, k := range p.keys {
		if k.ID.String() > after.String() && len(all) < limit {
			all = append(all, k)
		}
	}
	return all, nil
}

func (p *people) NamesOf(context.Context, pg.Queryer, []uuid.UUID) (map[uuid.UUID]string, error) {
	return map[uuid.UUID]string{p.project.UUID: "default"}, nil
}

func (p *people) DeleteSSHKey(context.Context, identity.Change[struct{}], ids.SSHKey) error {
	return nil
}

// rooms are the other rooms, with one thing of each kind.
type rooms struct {
	rest.Allocations // what no test asks

	people *people

	mu       sync.Mutex
	asked    int // creates, made or not
	made     int // allocations that were really made
	all      map[ids.Allocation]allocation.Allocation
	fails    error // what every room answers when set
	releases int
	trace    string // that the last request belonged to
	queued   bool   // whether it might wait
}

func (r *rooms) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fails
}

func (r *rooms) Request(ctx context.Context, q allocation.Request) (allocation.Allocation, error) {
	r.mu.Lock()
	r.asked++
	r.mu.Unlock()
	if err := r.failure(); err != nil {
		return allocation.Allocation{}, err
	}
	a := allocation.Allocation{
		ID: ids.New[ids.Allocation](), Tenant: q.Caller.Tenant, Project: q.Caller.Project, User: q.Caller.User, Node: ids.New[ids.Node](),
		Name: q.Name, SKU: q.SKU, GPUs: q.GPUs, Region: "eu-1", State: allocation.Requested, Version: 1, Currency: "EUR", PriceMinor: 289,
		Login: "u200001", Labels: q.Labels, CreatedAt: t0, StatusAt: t0,
	}
	if err := r.people.keep(ctx, q.Key, q.Answer, a); err != nil {
		return allocation.Allocation{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	r.trace, r.queued = q.Caller.Trace, q.Queue
	r.all[a.ID] = a
	return a, nil
}

func (r *rooms) Release(ctx context.Context, _ identity.Caller, k identity.Key, id ids.Allocation, answer func(allocation.Allocation) identity.Reply) (allocation.Allocation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.all[id]
	if a.State == allocation.Releasing {
		return allocation.Allocation{}, errs.New(errs.AllocationAlreadyReleasing, "it is being released")
	}
	a.State = allocation.Releasing
	a.Version++
	r.all[id] = a
	r.releases++
	return a, r.people.keep(ctx, k, answer, a)
}

func (r *rooms) Get(_ context.Context, _ identity.Caller, id ids.Allocation) (allocation.Allocation, error) {
	if err := r.failure(); err != nil {
		return allocation.Allocation{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.all[id]
	if !ok {
		return allocation.Allocation{}, errs.New(errs.NotFound, "no such allocation")
	}
	return a, nil
}

// List has two items, whatever was made.
func (r *rooms) List(_ context.Context, c identity.Caller, f allocation.Filter) ([]allocation.Allocation, error) {
	if f.After.ID != (ids.Allocation{}) {
		return nil, nil
	}
	a := allocation.Allocation{ID: ids.New[ids.Allocation](), Project: c.Project, State: allocation.Active, Currency: "EUR", CreatedAt: t0}
	b := a
	b.ID = ids.New[ids.Allocation]()
	return []allocation.Allocation{a, b}[:min(2, f.Limit)], nil
}

// Pending says that a node is cordoned, and which one to those who may know.
func (*rooms) Pending(_ context.Context, a allocation.Allocation, named bool) (allocation.Pending, error) {
	text := "fits if a node is uncordoned"
	if named {
		text = "fits if node n7 is uncordoned"
	}
	return allocation.Pending{Since: a.CreatedAt, Position: 2, Left: []place.Left{{Filter: place.Cordoned, Nodes: 1}}, Fits: []place.Fit{{Text: text}}}, nil
}

func (r *rooms) CommittedBurn(context.Context, pg.Queryer, ids.Tenant, ids.Project) (money.Minor, error) {
	return 578, nil
}

func (r *rooms) Names(context.Context, []uuid.UUID) (map[uuid.UUID]string, error) {
	return map[uuid.UUID]string{}, nil
}

func (r *rooms) Timeline(context.Context, identity.Caller, ids.Allocation) ([]allocation.Transition, error) {
	return []allocation.Transition{{Version: 2, Event: "task_queued", From: allocation.Requested, To: allocation.Provisioning, At: t0}}, nil
}

type shop struct{}

var h100 = catalog.SKU{ID: ids.New[ids.Object](), Name: "h100-sxm", DisplayName: "H100", GPUModel: "NVIDIA H100", MemoryGiB: 80, Isolation: "host_user", MaxGPUs: 8, Active: true, Currency: "EUR", PriceMinor: 289}

func (shop) Get(_ context.Context, name string) (catalog.SKU, error) {
	if name != h100.Name {
		return catalog.SKU{}, errs.New(errs.NotFound, "no such SKU")
	}
	return h100, nil
}

func (shop) List(context.Context, string, int) ([]catalog.SKU, error) {
	return []catalog.SKU{h100}, nil
}

type facts struct{}

func (facts) Open(_ context.Context, _ ids.Tenant, _ ids.Project, after string) (func(http.ResponseWriter) error, error) {
	if after == "gone" {
		return nil, errs.New(errs.NotFound, "this event is not kept any more")
	}
	return func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := w.Write([]byte("retry: 2000\n\n"))
		return err
	}, nil
}
