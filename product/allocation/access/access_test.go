package access

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/protocol"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"allocations"}, map[string]string{
		"setSent": setSent, "selectSent": selectSent, "lockOutdated": lockOutdated, "selectUnrestricted": selectUnrestricted,
	})
}

// installation has one active allocation, on a node whose agent has a capability.
type installation struct {
	*allocationtest.Fixture

	t     *testing.T
	s     *Service
	a     allocation.Allocation
	rules Rules
}

func setup(t *testing.T, capability int) *installation {
	t.Helper()
	w := &installation{Fixture: allocationtest.New(t, 1_000_000), t: t}
	node := w.Node(t, "n", 1)
	w.Do(t, func(tx pgx.Tx) error {
		_, err := (&observed.Store{DB: w.DB}).Report(t.Context(), tx, node, allocationtest.Report(node, 1), time.Hour)
		return err
	})
	w.a = w.Active(t, 1)
	w.s = &Service{DB: pgtest.As(t, w.DB, "gpuaas_work"), Allocations: w.Allocations, Rules: func(tenant ids.Tenant, project ids.Project) Rules {
		if tenant != w.a.Tenant || project != w.a.Project {
			t.Errorf("the rules of %s and %s", tenant, project)
		}
		return w.rules
	}}
	w.reports(capability)
	return w
}

func (w *installation) reports(capability int) {
	w.t.Helper()
	if _, err := w.DB.Exec(w.t.Context(), `UPDATE observed_nodes SET capability = $1`, capability); err != nil {
		w.t.Fatal(err)
	}
}

// send returns how many generations follow from the rules now.
func (w *installation) send() (sent int) {
	w.t.Helper()
	due, err := w.s.Outdated(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	err = pgx.BeginFunc(w.t.Context(), w.s.DB, func(tx pgx.Tx) (err error) {
		sent, err = w.s.Send(w.t.Context(), tx, 10)
		return err
	})
	if err != nil || due != (sent > 0) {
		w.t.Fatalf("%d sent, due %v, %v", sent, due, err)
	}
	return sent
}

// A changed policy gives each live allocation one new generation. An older agent gets none, until it is updated.
func TestAChangedPolicyReachesLiveAllocations(t *testing.T) {
	t.Parallel()
	w := setup(t, protocol.AccessCapability-1)
	fence := func() int64 { return w.Declared(t, w.a.ID).Fence }
	before := fence()
	if n := w.send(); n != 0 {
		t.Errorf("%d sent to an agent that does not know them", n)
	}
	w.reports(protocol.AccessCapability)
	for _, c := range []struct {
		rules Rules
		sent  int
	}{
		{Rules{}, 1}, {Rules{}, 0}, {Rules{Forwarding: true}, 1}, {Rules{DirectLogin: true, Forwarding: true}, 1}, {Rules{DirectLogin: true, Forwarding: true}, 0}, {Rules{}, 1},
	} {
		w.rules = c.rules
		if n := w.send(); n != c.sent {
			t.Errorf("%+v: %d sent", c.rules, n)
		}
	}
	if got := fence() - before; got != 4 {
		t.Errorf("%d new fences", got)
	}
	w.Do(t, func(tx pgx.Tx) error { return w.s.Sent(t.Context(), tx, w.a.ID, new(Rules{Forwarding: true}.Task())) })
	w.rules = Rules{Forwarding: true}
	if n := w.send(); n != 0 {
		t.Errorf("%d sent after a task with the rules", n)
	}
	w.Do(t, func(tx pgx.Tx) error { return w.s.Sent(t.Context(), tx, w.a.ID, nil) })
	if n := w.send(); n != 1 {
		t.Errorf("%d sent after a task without rules", n)
	}
}

func TestTheAgentIsTooOld(t *testing.T) {
	t.Parallel()
	w := setup(t, protocol.AccessCapability-1)
	for _, c := range []struct {
		capability int
		rules      Rules
		want       bool
	}{
		{protocol.AccessCapability - 1, Rules{}, true},
		{protocol.AccessCapability - 1, Rules{DirectLogin: true, Forwarding: true}, true},
		{protocol.AccessCapability - 1, Rules{DirectLogin: true}, false}, // what an older agent does
		{protocol.AccessCapability, Rules{}, false},
	} {
		w.reports(c.capability)
		w.rules = c.rules
		b := &pgx.Batch{}
		found := w.s.QueueUnrestricted(b, []ids.Allocation{w.a.ID})
		if err := w.DB.SendBatch(t.Context(), b).Close(); err != nil || found[w.a.ID] != c.want {
			t.Errorf("%+v: %v, %v", c, found, err)
		}
	}
}

// Neither the response nor its repetition has an address where direct logins are denied.
func TestTheAddressFollowsThePolicy(t *testing.T) {
	t.Parallel()
	w := setup(t, protocol.AccessCapability)
	w.Allocations.Signs = func(context.Context, ssh.PublicKey, ids.Allocation, string, time.Duration) (allocation.Login, error) {
		return allocation.Login{Serial: uint64(time.Now().UnixNano()), ExpiresAt: time.Now().Add(time.Minute)}, nil
	}
	w.Allocations.LoginLife = func() time.Duration { return time.Minute }
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
	for _, direct := range []bool{false, true} {
		w.rules.DirectLogin = direct
		var answered allocation.Login
		l, err := w.s.Login(t.Context(), identity.Change[allocation.Login]{Caller: w.Caller, Answer: func(l allocation.Login) identity.Reply {
			answered = l
			return identity.Reply{}
		}}, w.a, key)
		if err != nil || (l.Host != "") != direct || (l.Port != 0) != direct || (answered.Host != "") != direct || l.User == "" {
			t.Errorf("direct %v: %+v, answered %+v, %v", direct, l, answered, err)
		}
	}
}

// Where recordings are required, users have neither direct logins nor forwarding.
func TestRulesFromPolicies(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	c := &policies.Client{DB: db, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler)}
	set := func(key string, value any) Rules {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			return c.Set(t.Context(), tx, policies.Applied{Key: key, Scope: policies.Platform, Subject: policies.Platform, Value: value, Source: "user:x", Object: ids.Object{UUID: uuid.NewSHA1(uuid.Nil, []byte(key))}})
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return RulesFrom(c)(ids.New[ids.Tenant](), ids.New[ids.Project]())
	}
	for _, one := range []struct {
		key   string
		value any
		want  Rules
	}{
		{"terminal.recording", "browser", Rules{Forwarding: true}},
		{"terminal.direct_login", "allowed", Rules{DirectLogin: true, Forwarding: true}},
		{"terminal.recording", "required", Rules{}},
		{"terminal.recording", "off", Rules{DirectLogin: true, Forwarding: true}},
		{"terminal.forwarding_enabled", false, Rules{DirectLogin: true}},
	} {
		if got := set(one.key, one.value); got != one.want {
			t.Errorf("%s = %v: %+v, want %+v", one.key, one.value, got, one.want)
		}
	}
}
