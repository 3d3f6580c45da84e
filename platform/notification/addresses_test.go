package notification

import (
	"context"
	"errors"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	mails "github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/platform/notification/smtp/smtptest"
)

// An address that its server rejects receives no mail until an operator lifts that.
func TestSuppressedAddresses(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.exec(`DELETE FROM tenant_memberships WHERE user_id = $1`, p.users["a billing"])
	p.fail = func(command string) error {
		if command == "RCPT" {
			return smtptest.Reject(550, "5.1.1", "no such user")
		}
		return nil
	}
	p.raise("low_balance", "a")
	for _, args := range p.queued() {
		if _, ok := errors.AsType[*mails.RejectedError](p.Send(t.Context(), args)); !ok {
			t.Error("the address is not rejected")
		}
	}
	p.fail = nil
	p.raise("auto_release_pending", "a")
	same(t, "recipients", p.deliverAll())
	owner := p.caller("a owner")
	mine := pg.WithScope(t.Context(), pg.Scope{Tenant: owner.Tenant.String(), Principal: owner.User.String()})
	view, err := p.api().Preferences(mine, owner)
	if err != nil || view.Mail.SuppressedAt == nil || !strings.Contains(*view.Mail.SuppressedReason, "no such user") {
		t.Errorf("%+v, %v", view.Mail, err)
	}
	if list, err := p.api().Suppressions(mine, uuid.Nil, 10); err != nil || len(list) != 1 { // the own one
		t.Errorf("%+v, %v", list, err)
	}
	other := p.caller("b owner")
	if list, err := p.api().Suppressions(pg.WithScope(t.Context(), pg.Scope{Tenant: other.Tenant.String(), Principal: other.User.String()}), uuid.Nil, 10); err != nil || len(list) != 0 {
		t.Errorf("another tenant reads %+v, %v", list, err)
	}
	all := pg.WithScope(t.Context(), pg.Platform)
	list, err := p.api().Suppressions(all, uuid.Nil, 10)
	if err != nil || len(list) != 1 || list[0].Address != "a.owner@example.test" {
		t.Fatalf("%+v, %v", list, err)
	}
	lift := func(ctx context.Context) error {
		b := &pgx.Batch{}
		p.api().Lift(identity.Caller{User: ids.From[ids.User](p.users["operator"]), Role: "operator"}, list[0].ID, "the mailbox exists")(b)
		return pgx.BeginFunc(ctx, p.api().DB, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
	}
	if err := lift(mine); err == nil {
		t.Error("a user lifts a suppression")
	}
	if err := lift(all); err != nil {
		t.Fatal(err)
	}
	if err := lift(all); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("again: %v", err)
	}
	p.raise("balance_depleted", "a")
	same(t, "recipients", p.deliverAll(), "a.owner")
}

// The address of a deleted user, and a lifted one, are deleted after their age. That of a user stays, as does a new one.
func TestSuppressionsWithoutAUserAreDeleted(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.exec(`INSERT INTO suppressed_addresses (id, address, reason, created_at, lifted_at, lifted_by) VALUES
		(gen_random_uuid(), 'a.owner@example.test', '', now() - interval '9 days', NULL, ''),
		(gen_random_uuid(), 'deleted@example.test', '', now() - interval '9 days', NULL, ''),
		(gen_random_uuid(), 'lifted@example.test', '', now() - interval '9 days', now() - interval '8 days', 'operator'),
		(gen_random_uuid(), 'new@example.test', '', now(), NULL, '')`)
	if n, err := DeleteSuppressed(t.Context(), p.DB, 7*24*time.Hour, 10); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	list, err := p.api().Suppressions(pg.WithScope(t.Context(), pg.Platform), uuid.Nil, 10)
	if err != nil || len(list) != 2 || list[0].Address == "deleted@example.test" || list[1].Address == "deleted@example.test" {
		t.Errorf("%+v, %v", list, err)
	}
}

// A deferred e-mail is neither lost nor suppressed, and each attempt has the same id.
func TestDeferredEmails(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.exec(`DELETE FROM tenant_memberships WHERE user_id = $1`, p.users["a billing"])
	p.raise("low_balance", "a")
	args := p.queued()
	calls := 0
	p.fail = func(command string) error {
		if calls++; command == "RCPT" && calls < 3 {
			return smtptest.Reject(450, "4.7.1", "greylisted")
		}
		return nil
	}
	if err := p.Send(t.Context(), args[0]); err == nil || strings.Contains(err.Error(), "example.test") {
		t.Fatalf("%v", err)
	}
	if err := p.Send(t.Context(), args[0]); err != nil {
		t.Fatal(err)
	}
	messages, _ := p.server.Received()
	if len(messages) != 1 || messages[0].Header.Get("Message-Id") != "<"+args[0].ID.String()+"@gpuaas.test>" {
		t.Errorf("%v", messages)
	}
}

// A new invitation is sent once, with the place to accept it and no credential. One that is revoked meanwhile is not sent.
func TestInvitationsAreSentOnce(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	invite := func(tenant, address string) {
		p.exec(`INSERT INTO invitations (id, org_id, email, role, invited_by, expires_at) VALUES (gen_random_uuid(), $1, $2, 'member', $3, now() + interval '7 days')`,
			p.tenants[tenant], address, p.users[tenant+" owner"])
	}
	p.noMail[p.tenants["b"]] = true
	invite("a", "new@example.test")
	invite("a", "other@example.test")
	invite("b", "third@example.test")
	for range 3 {
		if err := p.QueueInvitations(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.exec(`UPDATE invitations SET revoked_at = now() WHERE email = 'other@example.test'`)
	same(t, "recipients", p.deliverAll(), "new")
	// An address that is invited again on the same day receives no second e-mail.
	invite("a", "Other@example.test")
	if err := p.QueueInvitations(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "recipients", p.deliverAll(), "new")
	p.exec(`UPDATE invitation_mails SET queued_at = now() - interval '25 hours'`)
	if err := p.QueueInvitations(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "recipients", p.deliverAll(), "Other", "new")
	text := p.texts()[0]
	if !strings.Contains(text, "You are invited to a as member") || !strings.Contains(text, "https://gpuaas.test/portal/") || strings.Contains(text, "unsubscribe") {
		t.Errorf("%q", text)
	}
}

// linkIn returns the link that ends e-mails, as the header of the last e-mail has it.
func (p *post) linkIn() string {
	p.t.Helper()
	messages, _ := p.server.Received()
	var last *netmail.Message
	for _, m := range messages {
		last = m
	}
	_, link, found := strings.Cut(strings.Trim(last.Header.Get("List-Unsubscribe"), "<>"), "?link=")
	if !found || last.Header.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" {
		p.t.Fatalf("%v", last.Header)
	}
	return link
}

// A link ends the e-mails of its kind to its user, once and for all. Reading it changes nothing.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.exec(`DELETE FROM tenant_memberships WHERE user_id = $1`, p.users["a billing"])
	p.raise("low_balance", "a")
	p.deliverAll()
	api, link := p.api(), p.linkIn()
	read := func(link string) (Subscription, error) { return api.Subscription(t.Context(), link) }
	end := func(link string) (Subscription, error) {
		return api.Unsubscribe(t.Context(), link, audit.By{CorrelationID: "c"})
	}
	if sub, err := read(link); err != nil || sub.Ended || !slices.Equal(sub.Titles, []string{"Balance is low"}) {
		t.Fatalf("%+v, %v", sub, err)
	}
	changed := []byte(link)
	changed[len(changed)-5] ^= 1
	for name, wrong := range map[string]string{"altered": string(changed), "empty": "", "short": link[:30]} {
		if _, err := end(wrong); errs.CodeOf(err) != errs.NotFound && errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 3 { // a replay changes nothing
		if _, err := end(link); err != nil {
			t.Fatal(err)
		}
	}
	if sub, err := read(link); err != nil || !sub.Ended {
		t.Errorf("%+v, %v", sub, err)
	}
	var version, rows int
	if err := p.db.QueryRow(t.Context(), `SELECT max(version), (SELECT count(*) FROM audit_logs WHERE action = 'user.unsubscribe') FROM notification_preferences`).Scan(&version, &rows); err != nil || version != 2 || rows != 1 {
		t.Errorf("version %d, %d audit rows, %v", version, rows, err)
	}
	before := len(p.recipients())
	p.exec(`DELETE FROM notifications`)
	p.raise("low_balance", "a")
	p.raise("auto_release_pending", "a")
	if p.deliverAll(); len(p.recipients()) != before+1 {
		t.Errorf("%q", p.texts()[before:])
	}
	second := p.linkIn()
	if err := p.put("a owner", false, Write{RevokeLinks: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := end(second); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("revoked: %v", err)
	}
	p.exec(`UPDATE users SET deleted_at = now(), disabled_at = now(), oidc_issuer = 'deleted', email = 'deleted@deleted.invalid' WHERE name = 'a owner'`)
	if _, err := end(second); errs.CodeOf(err) != errs.NotFound || !strings.Contains(err.Error(), "deleted") {
		t.Errorf("a deleted user: %v", err)
	}
}
