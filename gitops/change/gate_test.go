package change_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// tree is a set of desired objects by name.
type tree map[string]desired.Object

func (t tree) list() []desired.Object {
	return slices.SortedFunc(maps.Values(t), func(a, b desired.Object) int {
		return slices.Index(desired.Kinds(), a.Kind) - slices.Index(desired.Kinds(), b.Kind)
	})
}

func policy(name, key, scope string, value any) desired.Object {
	return object(desired.KindPolicy, name, desired.Policy{Key: key, Scope: scope, Value: value})
}

func production(change func(*desired.Environment)) desired.Object {
	spec := desired.Environment{
		DisplayName: "Production", Region: "eu-1", TrustDomain: "gpuaas.example",
		Sources: []desired.GitSource{{Name: "team", Repository: "https://git.example/team.git", Ref: "main", Dirs: []string{"."}, Verify: desired.GitVerify{Required: true}}},
	}
	if change != nil {
		change(&spec)
	}
	return object(desired.KindEnvironment, "production", spec)
}

// base is the desired state of an installation with an approval gate.
func base() tree {
	return tree{
		"environment": production(nil),
		"requires":    policy("requires", "gitops.apply_requires", "platform", []any{"approved"}),
		"prune":       policy("prune", "gitops.prune_cap_objects", "platform", 5),
		"personal":    policy("personal", "auth.personal_login_enabled", "platform", false),
		"mass":        policy("mass", "node.mass_action_percent", "platform", 5),
		"limit":       policy("limit", "billing.hourly_spend_limit_minor", "tenant:acme", 100),
		"minimum":     policy("minimum", "payment.min_amount_minor", "platform", 500),
		"cap":         policy("cap", "allocation.max_concurrent_per_user", "platform", 4),
		"role":        object(desired.KindRole, "support", desired.Role{Description: "reads", Operations: []string{"listSkus"}}),
		"h100":        skuObject("h100", 249),
	}
}

// hostile are commits of a user who may push and must not be able to do more.
var hostile = map[string]func(tree){
	"switches the gate off":     func(t tree) { t["requires"] = policy("requires", "gitops.apply_requires", "platform", []any{}) },
	"removes the gate's policy": func(t tree) { delete(t, "requires") },
	"renames the gate's policy": func(t tree) {
		delete(t, "requires")
		t["r2"] = policy("r2", "gitops.apply_requires", "platform", []any{})
	},
	"replaces approval by signature": func(t tree) {
		t["requires"] = policy("requires", "gitops.apply_requires", "platform", []any{"undiverged"})
	},
	"raises the prune cap":            func(t tree) { t["prune"] = policy("prune", "gitops.prune_cap_objects", "platform", 1000) },
	"raises the prune share":          func(t tree) { t["share"] = policy("share", "gitops.prune_cap_percent", "platform", 100) },
	"ignores drift":                   func(t tree) { t["drift"] = policy("drift", "gitops.drift_policy.policy", "platform", "ignore") },
	"allows previews of forks":        func(t tree) { t["forks"] = policy("forks", "gitops.preview_forks", "platform", true) },
	"slows the sync":                  func(t tree) { t["poll"] = policy("poll", "gitops.poll_seconds", "platform", 3600) },
	"raises the size of a source":     func(t tree) { t["files"] = policy("files", "gitops.max_files", "platform", 50000) },
	"allows passwords":                func(t tree) { t["personal"] = policy("personal", "auth.personal_login_enabled", "platform", true) },
	"lengthens sessions":              func(t tree) { t["session"] = policy("session", "auth.session_max_hours", "platform", 168) },
	"lengthens sessions of a tenant":  func(t tree) { t["session"] = policy("session", "auth.session_max_hours", "tenant:acme", 168) },
	"allows keys":                     func(t tree) { t["keys"] = policy("keys", "auth.api_keys_enabled", "tenant:acme", true) },
	"loosens the breaker":             func(t tree) { t["mass"] = policy("mass", "node.mass_action_percent", "platform", 100) },
	"loosens the breaker's minimum":   func(t tree) { t["mass2"] = policy("mass2", "node.mass_action_minimum", "platform", 100) },
	"loosens releases":                func(t tree) { t["mass3"] = policy("mass3", "node.mass_release_limit", "platform", 1000) },
	"raises a spend limit":            func(t tree) { t["limit"] = policy("limit", "billing.hourly_spend_limit_minor", "tenant:acme", 0) },
	"removes a spend limit":           func(t tree) { delete(t, "limit") },
	"moves a spend limit":             func(t tree) { t["limit"] = policy("limit", "billing.hourly_spend_limit_minor", "tenant:other", 100) },
	"replaces a key of a spend limit": func(t tree) { t["limit"] = policy("limit", "allocation.max_ttl_hours", "platform", 24) },
	"lets reports age":                func(t tree) { t["stale"] = policy("stale", "billing.observation_stale_seconds", "platform", 60) },
	"stretches a tick":                func(t tree) { t["tick"] = policy("tick", "billing.window_seconds", "platform", 3600) },
	"lowers the runway":               func(t tree) { t["runway"] = policy("runway", "billing.minimum_runway_minutes", "tenant:acme", 0) },
	"lowers the smallest top-up":      func(t tree) { t["minimum"] = policy("minimum", "payment.min_amount_minor", "platform", 1) },
	"raises the largest top-up":       func(t tree) { t["largest"] = policy("largest", "payment.max_amount_minor", "platform", 1_000_000_000) },
	"tops up without consent":         func(t tree) { t["auto"] = policy("auto", "payment.auto_topup_enabled", "tenant:acme", true) },
	"lowers a price":                  func(t tree) { t["h100"] = skuObject("h100", 1) },
	"raises a price":                  func(t tree) { t["h100"] = skuObject("h100", 24900) },
	"sells the same GPU for less":     func(t tree) { t["cheap"] = skuObject("cheap", 1) },
	"replaces a SKU":                  func(t tree) { delete(t, "h100"); t["cheap"] = skuObject("h100-2", 1) },
	"widens a role": func(t tree) {
		t["role"] = object(desired.KindRole, "support", desired.Role{Description: "reads", Operations: []string{"putPolicy"}})
	},
	"adds a role": func(t tree) {
		t["role2"] = object(desired.KindRole, "root", desired.Role{Description: "all", Operations: []string{"adjustBalance"}})
	},
	"removes a role": func(t tree) { delete(t, "role") },
	"changes the issuer": func(t tree) {
		t["environment"] = production(func(e *desired.Environment) { e.SignIn.Issuer = "https://attacker.example" })
	},
	"maps itself to admin": func(t tree) {
		t["environment"] = production(func(e *desired.Environment) { e.SignIn.Roles = map[string]string{"everyone": "admin"} })
	},
	"declares development": func(t tree) { t["environment"] = production(func(e *desired.Environment) { e.Development = true }) },
	"adds a source": func(t tree) {
		t["environment"] = production(func(e *desired.Environment) {
			e.Sources = append(e.Sources, desired.GitSource{Name: "mine", Repository: "https://attacker.example/x.git"})
		})
	},
	"moves a source": func(t tree) {
		t["environment"] = production(func(e *desired.Environment) { e.Sources[0].Repository = "https://attacker.example/x.git" })
	},
	"drops the signatures of a source": func(t tree) {
		t["environment"] = production(func(e *desired.Environment) { e.Sources[0].Verify.Required = false })
	},
	"removes the environment": func(t tree) { delete(t, "environment") },
	"hides a price among harmless changes": func(t tree) {
		t["cap"] = policy("cap", "allocation.max_concurrent_per_user", "platform", 5)
		t["h100"] = skuObject("h100", 248)
	},
	"labels the environment": func(t tree) {
		o := production(nil)
		o.Labels = map[string]string{"a": "b"}
		t["environment"] = o
	},
}

// Threat: a pusher changes the limits of pushers. An unsigned commit can contain the name of another
// user, so one approval by its real author must not be enough.
func TestHostileCommitsWaitForASecondPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.source()
	b.git(base().list()...)
	loop := b.as(pgtest.As(t, b.db, "gpuaas_reconcile"), nil)
	const written = `SELECT string_agg(concat_ws(' ', kind, name, generation, deleted_at), E'\n' ORDER BY kind, name) FROM desired_objects`
	before := b.text(written)
	for name, change := range hostile {
		objects := base()
		change(objects)
		commit := uuid.NewString()
		gate := b.gateOf(loop, commit, bobWrote)
		for _, when := range []string{"at first", "after the approval of its author"} {
			rev, err := b.apply(commit, gate, objects.list()...)
			if err != nil || rev.Status != revision.StatusWaiting || !slices.ContainsFunc(rev.Waits, func(w revision.Wait) bool { return w.Reason == preview.WaitSensitive }) {
				t.Errorf("%s, %s: %s %v, %v", name, when, rev.Status, rev.Waits, err)
				continue
			}
			p, err := b.Approve(b.ctx, approvalOf(b.ada), rev.Plan, "", "fine")
			if when == "at first" && (err != nil || p.Status != statusProposed || p.ApprovalsNeeded != 2) {
				t.Errorf("%s: %s, %d needed, %v", name, p.Status, p.ApprovalsNeeded, err)
			}
		}
	}
	if now := b.text(written); now != before {
		t.Errorf("a commit without a second person changed desired state:\n%s\n%s", before, now)
	}
	// With the approval of a second person the same commits are applied.
	objects := base()
	hostile["lowers a price"](objects)
	gate := b.gateOf(loop, "c9", bobWrote)
	rev, err := b.apply("c9", gate, objects.list()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []identity.Caller{b.ada, person(3, "carol@example.com")} {
		if _, err := b.Approve(b.ctx, approvalOf(who), rev.Plan, "", "agreed"); err != nil {
			t.Fatal(err)
		}
	}
	if rev, err = b.apply("c9", gate, objects.list()...); err != nil || rev.Status != revision.StatusApplied {
		t.Errorf("%+v, %v", rev, err)
	}
}

var statusProposed = change.StatusProposed

// bobWrote is the content of an unsigned commit.
var bobWrote = change.Origin{Author: "bob@example.com", Emails: []string{"bob@example.com"}}

func approvalOf(c identity.Caller) identity.Change[change.Stored] { return by[change.Stored](c) }

func (b *bundle) gateOf(s *change.Service, commit string, from change.Origin) revision.Gate {
	return func(ctx context.Context, tx pgx.Tx, d revision.Difference) (revision.Verdict, error) {
		c := preview.Change{Source: "fleet", Repository: "git://fleet", Commit: commit, Base: "c1", Owner: desired.OwnerGit, Diff: d, Signer: from.Signer}
		return s.Gate(ctx, tx, c, from)
	}
}

// Threat: one person makes a change and approves it, under the one of their names that is not checked.
func TestAuthorsDoNotApprove(t *testing.T) {
	t.Parallel()
	carol := person(3, "carol@example.com")
	program := identity.Caller{ServiceAccount: ids.New[ids.ServiceAccount](), CorrelationID: "c"}
	for name, c := range map[string]struct {
		from     change.Origin
		pushers  []string
		rejected []identity.Caller
		approves []identity.Caller
	}{
		"without a signature": {bobWrote, nil, []identity.Caller{person(2, "BOB@example.com"), program}, []identity.Caller{person(1, "ada@example.com"), carol}},
		"the forge does not know the pusher": {
			bobWrote,
			[]string{"ada@example.com", ""},
			[]identity.Caller{person(1, "ada@example.com"), person(2, "bob@example.com")},
			[]identity.Caller{carol, person(4, "dan@example.com")},
		},
		"a verified signature": {
			change.Origin{Author: "bob@example.com", Emails: []string{"bob@example.com", "carol@example.com"}, Signer: "ada@example.com"},
			nil,
			[]identity.Caller{person(1, "ada@example.com"), person(2, "bob@example.com"), carol, program},
			[]identity.Caller{person(4, "dan@example.com")},
		},
		"the forge names the pusher": {
			bobWrote, []string{"Ada@example.com"}, []identity.Caller{person(1, "ada@example.com"), person(2, "bob@example.com"), program}, []identity.Caller{carol},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.source()
			b.git(base().list()...)
			asForge := func(context.Context, pg.Queryer, string, string) ([]string, error) { return c.pushers, nil }
			loop := b.as(pgtest.As(t, b.db, "gpuaas_reconcile"), nil)
			loop.Pushers, b.Pushers = asForge, asForge
			objects := base()
			hostile["lowers a price"](objects)
			rev, err := b.apply("c2", b.gateOf(loop, "c2", c.from), objects.list()...)
			if err != nil || rev.Status != revision.StatusWaiting {
				t.Fatalf("%+v, %v", rev, err)
			}
			for _, who := range c.rejected {
				wantCode(t, who.Actor()+" "+who.Email, second(b.Approve(b.ctx, approvalOf(who), rev.Plan, "", "mine")), errs.PolicyDenied)
			}
			for i, who := range c.approves {
				p, err := b.Approve(b.ctx, approvalOf(who), rev.Plan, "", fmt.Sprint(i))
				last := i == len(c.approves)-1
				if err != nil || (p.Status == change.StatusApproved) != last || p.ApprovalsNeeded != len(c.approves) || len(p.Approvals) != i+1 {
					t.Errorf("approval %d: %+v, %v", i+1, p, err)
				}
				if !last {
					wantCode(t, "twice", second(b.Approve(b.ctx, approvalOf(who), rev.Plan, "", "again")), errs.Conflict)
				}
			}
			if p, err := b.Plan(b.ctx, rev.Plan); err != nil || len(p.Approvals) != len(c.approves) || p.Approvals[0].By == "" {
				t.Errorf("%+v, %v", p.Approvals, err)
			}
		})
	}
}

// Threat: the author requests the plan of their own commit first, through the API, and so hides the
// people behind it.
func TestARequestHidesNoAuthor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.source()
	b.git(base().list()...)
	objects := base()
	objects["h100"] = skuObject("h100", 1)
	loop := b.as(pgtest.As(t, b.db, "gpuaas_reconcile"), nil)
	rev, err := b.apply("c2", b.gateOf(loop, "c2", change.Origin{Author: "author@example.com"}), objects.list()...)
	if err != nil {
		t.Fatal(err)
	}
	signed := change.Origin{Author: "bob@example.com", Emails: []string{"ada@example.com"}, Signer: "eve@example.com"}
	if again, err := b.apply("c2", b.gateOf(loop, "c2", signed), objects.list()...); err != nil || again.Plan != rev.Plan {
		t.Fatalf("%+v, %v", again, err)
	}
	for _, email := range []string{"author@example.com", "bob@example.com", "ada@example.com", "eve@example.com"} {
		wantCode(t, email, second(b.Approve(b.ctx, approvalOf(person(9, email)), rev.Plan, "", "mine")), errs.PolicyDenied)
	}
}

// Threat: an operator changes the rules of approvals directly, and then approves alone.
func TestSensitiveObjectsAreNotWrittenDirectly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	put := func(o desired.Object) error {
		return second(b.Put(b.ctx, by[desired.Object](b.ada), change.Write{Object: o}))
	}
	set := func(key string, value any) error {
		return second(b.SetPolicy(b.ctx, by[change.PolicyKey](b.ada), key, "platform", value, 0))
	}
	if err := set("gitops.prune_cap_objects", 7); err != nil {
		t.Errorf("before the first environment: %v", err)
	}
	b.exec(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES (gen_random_uuid(), 'Environment', 'production', '{"region":"eu-1"}', 'x', 'api')`)
	for what, err := range map[string]error{
		"the gate": set("gitops.apply_requires", []any{}), "a cap": set("gitops.prune_cap_objects", 8), "a price": put(skuObject("h100", 1)),
		"a removed cap": second(b.Delete(b.ctx, by[desired.Object](b.ada), desired.Name{Kind: desired.KindPolicy, Name: "gitops-prune_cap_objects"}, 0)),
	} {
		if code := errs.CodeOf(err); code != errs.ApprovalRequired && (what != "a removed cap" || code != errs.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := set("allocation.max_ttl_hours", 24); err != nil {
		t.Errorf("a policy that is not sensitive: %v", err)
	}
	p := b.proposed(b.ada, sku("h100", 1))
	wantCode(t, "applied alone", second(b.Apply(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash)), errs.ApprovalRequired)
	wantCode(t, "approved alone", second(b.Approve(b.ctx, approvalOf(b.ada), p.ID, p.Hash, "")), errs.PolicyDenied)
	if _, err := b.Approve(b.ctx, approvalOf(b.bob), p.ID, p.Hash, "agreed"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Apply(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash); err != nil {
		t.Error(err)
	}
	// A program's request does not show which person is behind it.
	program := identity.Caller{ServiceAccount: ids.New[ids.ServiceAccount](), CorrelationID: "c"}
	p = b.proposed(program, sku("a100", 1))
	if got, err := b.Approve(b.ctx, approvalOf(b.bob), p.ID, p.Hash, ""); err != nil || got.Status != change.StatusProposed || got.ApprovalsNeeded != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A commit that introduces a requirement must meet it.
func TestTheStricterRequirementCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.source()
	b.git(base().list()...)
	loop := b.as(pgtest.As(t, b.db, "gpuaas_reconcile"), nil)
	objects := base()
	objects["requires"] = policy("requires", "gitops.apply_requires", "platform", []any{"approved", "signed"})
	if rev, err := b.apply("c2", b.gateOf(loop, "c2", bobWrote), objects.list()...); err != nil || rev.Status != revision.StatusInvalid {
		t.Errorf("unsigned: %s %v, %v", rev.Status, rev.Findings, err)
	}
	signed := change.Origin{Author: "bob@example.com", Signer: "bob@example.com"}
	if rev, err := b.apply("c3", b.gateOf(loop, "c3", signed), objects.list()...); err != nil || rev.Status != revision.StatusWaiting {
		t.Errorf("signed: %s %v, %v", rev.Status, rev.Findings, err)
	}
}
