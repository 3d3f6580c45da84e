package notification

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"notifications", "notification_preferences", "notification_digests", "suppressed_addresses", "invitation_mails"}, map[string]string{
		"notify": notify, "selectNotifications": selectNotifications, "selectOwn": selectOwn, "markRead": markRead,
		"selectPreferences": selectPreferences, "selectAddress": selectAddress, "putPreferences": putPreferences, "addToDigest": addToDigest,
		"closeDigests": closeDigests, "selectNewInvitations": selectNewInvitations, "insertInvitationMails": insertInvitationMails,
		"selectInvitation": selectInvitation, "selectOne": selectOne, "selectOfDigest": selectOfDigest, "selectRecipient": selectRecipient, "selectActive": selectActive,
		"ensureLinkKey": ensureLinkKey, "suppress": suppress, "selectSuppressed": selectSuppressed, "liftSuppression": liftSuppression,
		"selectSubscriber": selectSubscriber, "lockPreferences": lockPreferences, "putChoices": putChoices, "insertTest": insertTest,
		"deleteDigests": deleteDigests, "deleteSuppressed": deleteSuppressed, "deleteInvitationMails": deleteInvitationMails, "deletePreferences": deletePreferences,
	})
}

// bundle is a service with the rights of a worker, and a user for each role in two tenants.
type bundle struct {
	*Service

	t       *testing.T
	db      *pgxpool.Pool
	tenants map[string]ids.Tenant
	project map[string]ids.Project
	users   map[string]uuid.UUID // "a owner", "a project admin", "operator"
	muted   map[uuid.UUID]bool   // users whose policies disable all kinds that have a policy
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{
		t: t, db: pgtest.Clone(t), tenants: map[string]ids.Tenant{}, project: map[string]ids.Project{}, users: map[string]uuid.UUID{}, muted: map[uuid.UUID]bool{},
	}
	b.Service = &Service{DB: pgtest.As(t, b.db, "gpuaas_work"), Naming: ids.DefaultNaming, Policy: func(_ ids.Tenant, _ ids.Project, u ids.User) policies.View {
		v := policies.Snapshot{}.For()
		for _, key := range []policies.BoolKey{policies.NotificationLowBalanceEnabled, policies.NotificationBalanceDepletedEnabled, policies.NotificationProvisioningEnabled} {
			v = v.With(string(key), policies.Platform, !b.muted[u.UUID])
		}
		return v
	}}
	for _, tenant := range []string{"a", "b"} {
		id, project := ids.New[ids.Tenant](), ids.New[ids.Project]()
		b.tenants[tenant], b.project[tenant] = id, project
		b.exec(`INSERT INTO tenants (id, name) VALUES ($1, $2)`, id, tenant)
		b.exec(`INSERT INTO projects (id, org_id, name) VALUES ($1, $2, 'p')`, project, id)
		for _, role := range []string{"owner", "billing", "member", "viewer"} {
			b.exec(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, $3)`, id, b.user(tenant+" "+role, "user"), role)
		}
		for _, role := range []string{"admin", "member", "viewer"} {
			u := b.user(tenant+" project "+role, "user")
			b.exec(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, 'member')`, id, u)
			b.exec(`INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, $3)`, project, u, role)
		}
	}
	for _, role := range []string{"admin", "operator", "billing_operator"} {
		b.user(role, role)
	}
	return b
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

func (b *bundle) user(name, role string) uuid.UUID {
	b.t.Helper()
	id := uuid.Must(uuid.NewV7())
	b.users[name] = id
	b.exec(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, $2, $2, $2, $3)`, id, name, role)
	return id
}

func (b *bundle) event(k kind, tenant string) event.Event {
	b.t.Helper()
	e := event.Event{ID: ids.New[ids.Event](), Type: k.subject, Stream: k.stream, OccurredAt: time.Now(), Payload: payloadOf(b.t, k, requiredFields(k))}
	if tenant != "" {
		e.Tenant, e.Project = b.tenants[tenant], b.project[tenant]
		if k.stream == event.StreamProvisioning {
			e = ownedBy(b.t, e, b.users[tenant+" project member"])
		}
	}
	return e
}

// ownedBy returns the event with the owner of its allocation.
func ownedBy(t *testing.T, e event.Event, user uuid.UUID) event.Event {
	t.Helper()
	var fields map[string]any
	err := json.Unmarshal(e.Payload, &fields)
	if err == nil {
		fields["user_id"] = user
		e.Payload, err = json.Marshal(fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (b *bundle) raiseEvent(k kind, e event.Event) error {
	b.t.Helper()
	return pgx.BeginFunc(b.t.Context(), b.DB, func(tx pgx.Tx) error {
		_, err := b.effect(k)(b.t.Context(), tx, e)
		return err
	})
}

// list returns all notifications of a user.
func (b *bundle) list(user string) []Notification {
	b.t.Helper()
	list, err := (&Service{DB: b.db}).List(b.t.Context(), identity.Caller{User: ids.From[ids.User](b.users[user])}, false, uuid.Nil, 10)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// notified returns the users with an unread notification of the kind.
func (b *bundle) notified(kind string) (names []string) {
	b.t.Helper()
	found, err := pg.List(b.t.Context(), b.db, "users", `SELECT user_id FROM notifications WHERE kind = $1 AND read_at IS NULL`, pgx.RowTo[uuid.UUID], kind)
	if err != nil {
		b.t.Fatal(err)
	}
	for name, id := range b.users {
		if slices.Contains(found, id) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) != len(found) {
		b.t.Errorf("%d notifications of %v", len(found), names)
	}
	return names
}

// An owner of an allocation who has left its project is notified, and one who has left the tenant is not. Other
// members of the project are not.
func TestTheOwnerOfAnAllocationIsNotified(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := kinds()[0]
	for user, want := range map[string][]string{
		"a viewer": {"a project admin", "a viewer"}, "a project viewer": {"a project admin", "a project viewer"}, "b owner": {"a project admin"},
	} {
		b.exec(`DELETE FROM notifications`)
		if err := b.raiseEvent(k, ownedBy(t, b.event(k, "a"), b.users[user])); err != nil {
			t.Fatal(err)
		}
		if got := b.notified(k.name); !slices.Equal(got, want) {
			t.Errorf("owned by %s: %v", user, got)
		}
	}
}

// Each kind notifies exactly its audience, and no one of another tenant.
func TestAudiences(t *testing.T) {
	t.Parallel()
	b := setup(t)
	project, owners, operators := []string{"a project admin", "a project member"}, []string{"a billing", "a owner"}, []string{"admin", "operator"}
	for _, k := range kinds() {
		want, tenant := project, "a"
		switch {
		case k.name == "access_lost":
			want = []string{"a project member"}
		case k.stream == event.StreamBilling || k.stream == event.StreamPayments:
			want = owners
		case k.name == "node_retiring":
			want = []string{"a owner"}
		case k.stream == event.StreamDLQ:
			want, tenant = operators, ""
		}
		if err := b.raiseEvent(k, b.event(k, tenant)); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		if got := b.notified(k.name); !slices.Equal(got, want) {
			t.Errorf("%s notifies %v, expected %v", k.name, got, want)
		}
	}
	b.exec(`UPDATE notifications SET read_at = now()`)
	retiring := kindOf(t, "node_retiring")
	if err := b.raiseEvent(retiring, b.event(retiring, "")); err != nil {
		t.Error(err)
	}
	if got := b.notified("node_retiring"); !slices.Equal(got, operators) {
		t.Errorf("the retirement of a node notifies %v", got)
	}
}

func kindOf(t *testing.T, name string) kind {
	t.Helper()
	for _, k := range kinds() {
		if k.name == name {
			return k
		}
	}
	t.Fatalf("no kind %s", name)
	return kind{}
}

// A user who has left the tenant is notified of the loss, and one who is disabled or deleted is not. The kind cannot be off
// in the application.
func TestLostAccess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := kindOf(t, "access_lost")
	if k.mutable() {
		t.Error("the kind can be off")
	}
	b.exec(`DELETE FROM tenant_memberships WHERE user_id = $1`, b.users["a viewer"])
	b.exec(`DELETE FROM project_memberships WHERE user_id = $1`, b.users["a project viewer"])
	b.exec(`UPDATE users SET disabled_at = now() WHERE id = $1`, b.users["a billing"])
	b.exec(`UPDATE users SET deleted_at = now() WHERE id = $1`, b.users["a member"])
	for user, want := range map[string][]string{"a viewer": {"a viewer"}, "a project viewer": {"a project viewer"}, "operator": {"operator"}, "a billing": nil, "a member": nil} {
		b.exec(`DELETE FROM notifications`)
		if err := b.raiseEvent(k, ownedBy(t, b.event(k, "a"), b.users[user])); err != nil {
			t.Fatal(err)
		}
		if got := b.notified(k.name); !slices.Equal(got, want) {
			t.Errorf("the loss of %s notifies %v", user, got)
		}
	}
	for payload, want := range map[string]string{
		`{"scope": "project", "reason": "membership_removed", "name": "bench"}`: "The membership in project bench was removed. Allocations there continue, and the tenant pays for them. To have access again, contact an administrator of the project.",
		`{"scope": "tenant", "reason": "membership_removed"}`:                   "The membership in the tenant was removed. Allocations there continue, and the tenant pays for them. To have access again, contact an owner of the tenant.",
		`{"scope": "platform", "reason": "role_removed"}`:                       "The role on the platform was removed. To have access again, contact an administrator of the platform.",
		`{"scope": "platform", "reason": "account_disabled"}`:                   "The account is disabled. To have access again, contact an administrator of the platform.",
	} {
		if got, err := k.render(event.Event{Payload: []byte(payload)}); err != nil || got.message != want {
			t.Errorf("%q, %v", got.message, err)
		}
	}
}

// A disabled user, one who has left, and one whose policies disable the kind are not notified.
func TestWhoIsNotNotified(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`UPDATE users SET disabled_at = now() WHERE id = $1`, b.users["a owner"])
	low, credited := kindOf(t, "low_balance"), kindOf(t, "balance_credited")
	b.muted[b.users["a billing"]] = true
	b.muted[b.users["a project admin"]] = true
	for name, key := range map[string]policies.BoolKey{
		"low_balance": policies.NotificationLowBalanceEnabled, "balance_depleted": policies.NotificationBalanceDepletedEnabled, "provision_active": policies.NotificationProvisioningEnabled,
	} {
		k := kindOf(t, name)
		if k.enabled != key {
			t.Errorf("%s is enabled by %s", name, k.enabled)
		}
		if err := b.raiseEvent(k, b.event(k, "a")); err != nil {
			t.Fatal(err)
		}
		if got := b.notified(name); slices.Contains(got, "a billing") || slices.Contains(got, "a project admin") {
			t.Errorf("%s notifies %v", name, got)
		}
	}
	for _, k := range []kind{low, credited} {
		if err := b.raiseEvent(k, b.event(k, "a")); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.notified(low.name); len(got) != 0 {
		t.Errorf("%v are notified", got)
	}
	if got := b.notified(credited.name); !slices.Equal(got, []string{"a billing"}) {
		t.Errorf("a kind without a policy notifies %v", got)
	}
	b.exec(`DELETE FROM tenant_memberships WHERE user_id = $1`, b.users["a billing"])
	b.exec(`UPDATE notifications SET read_at = now()`)
	if err := b.raiseEvent(credited, b.event(credited, "a")); err != nil {
		t.Fatal(err)
	}
	if got := b.notified(credited.name); len(got) != 0 {
		t.Errorf("%v are notified", got)
	}
}

// Repeated events of one cause are one notification with a count, until it is read.
func TestRepeatedEventsAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := kindOf(t, "low_balance")
	for _, cause := range []string{"c-1", "c-2", "c-3"} {
		e := b.event(k, "a")
		e.CorrelationID = cause
		if err := b.raiseEvent(k, e); err != nil {
			t.Fatal(err)
		}
	}
	api := &Service{DB: pgtest.Scoped(t, b.db)}
	owner := identity.Caller{User: ids.From[ids.User](b.users["a owner"]), Tenant: b.tenants["a"]}
	ctx := func(c identity.Caller) context.Context {
		return pg.WithScope(t.Context(), pg.Scope{Tenant: c.Tenant.String(), Principal: c.User.String()})
	}
	list, err := api.List(ctx(owner), owner, true, uuid.Nil, 10)
	if err != nil || len(list) != 1 || list[0].Count != 3 || list[0].Severity != Warning || list[0].CorrelationID != "c-3" {
		t.Fatalf("%+v, %v", list, err)
	}
	mark := func(c identity.Caller, these []uuid.UUID) {
		t.Helper()
		queue, err := api.MarkRead(ctx(c), c, these)
		if err != nil {
			t.Fatal(err)
		}
		batch := &pgx.Batch{}
		queue(batch)
		if err := api.DB.SendBatch(ctx(c), batch).Close(); err != nil {
			t.Fatal(err)
		}
	}
	other := identity.Caller{User: ids.From[ids.User](b.users["b owner"]), Tenant: b.tenants["b"]}
	if _, err := api.MarkRead(ctx(other), other, []uuid.UUID{list[0].ID}); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("a foreign notification: %v", err)
	}
	mark(other, nil)
	if got := b.notified(k.name); len(got) != 2 {
		t.Errorf("%v after a foreign call", got)
	}
	mark(owner, []uuid.UUID{list[0].ID})
	if got := b.notified(k.name); !slices.Equal(got, []string{"a billing"}) {
		t.Errorf("%v after one was read", got)
	}
	if err := b.raiseEvent(k, b.event(k, "a")); err != nil {
		t.Fatal(err)
	}
	list, err = api.List(ctx(owner), owner, false, uuid.Nil, 10)
	if err != nil || len(list) != 2 || list[0].Count != 1 || list[0].ReadAt != nil || list[1].ReadAt == nil {
		t.Errorf("%+v, %v", list, err)
	}
	mark(owner, nil)
	if list, err = api.List(ctx(owner), owner, true, uuid.Nil, 10); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// An event raises the count of a notification of the last day only. A later one is a new notification, and the first of the list.
func TestAnOldNotificationIsNotRaised(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := kindOf(t, "auto_release_pending")
	for _, age := range []string{"25 hours", "23 hours", "0"} {
		if err := b.raiseEvent(k, b.event(k, "a")); err != nil {
			t.Fatal(err)
		}
		b.exec(`UPDATE notifications SET created_at = now() - $1::interval WHERE created_at = updated_at`, age)
	}
	list := b.list("a owner")
	if len(list) != 2 || list[0].Count != 2 || list[1].Count != 1 || !list[1].CreatedAt.Before(list[0].CreatedAt) {
		t.Errorf("%+v", list)
	}
}

// A message names the facts of its event, and a payload without one is a failure and no notification. A dead letter has
// the same message with any payload.
func TestMessages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	contract, err := asyncapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{ // with the required fields, and with all
		"low_balance": {
			"The balance is EUR -0.10, below EUR 2.89. It falls by EUR 2.89 per hour. Top it up.",
			"The balance is EUR -0.10, below EUR 2.89. It falls by EUR 2.89 per hour and lasts 9 minutes. Top it up.",
		},
		"node_retiring": {
			"A node with your allocations is retired at 2026-01-05 09:00 UTC: text. Release or move its allocations before.",
			"Node text is retired at 2026-01-05 09:00 UTC: text. Release or move its allocations before.",
		},
	}
	for _, k := range kinds() {
		for i, fields := range [2][]string{requiredFields(k), allFields(k)} {
			e := b.event(k, "a")
			e.Payload = payloadOf(t, k, fields)
			if k.stream != event.StreamDLQ {
				if err := contract.Payload(k.subject, e.Payload); err != nil {
					t.Error(err)
				}
			}
			got, err := k.render(e)
			if err != nil || strings.Contains(got.message, "no value") || got.title == "" || (got.urn == "") != (k.stream == event.StreamDLQ) {
				t.Errorf("%s: %+v, %v", k.name, got, err)
			}
			if text := want[k.name][i]; text != "" && got.message != text {
				t.Errorf("%s: %q", k.name, got.message)
			}
		}
		e := b.event(k, "a")
		for _, hostile := range []string{``, `null`, `[]`, `{"urn": "x"}`, `{"currency": 1, "balance_minor": "x", "active_at": [], "allocation_ids": 3}`} {
			e.Payload = []byte(hostile)
			got, err := k.render(e)
			if k.stream != event.StreamDLQ && err == nil {
				t.Errorf("%s accepts %q", k.name, hostile)
			}
			if k.stream == event.StreamDLQ && (err != nil || got.urn != "" || got.message != "An event dlq.> has become a dead letter. Retry or discard it: gpuaas events dead-letters.") {
				t.Errorf("a dead letter with %q: %+v, %v", hostile, got, err)
			}
		}
	}
}
