package notification

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	mails "github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/platform/notification/smtp"
	"github.com/gpuaas/gpuaas/platform/notification/smtp/smtptest"
	"github.com/gpuaas/gpuaas/policies"
)

// post is a bundle with a mail server. A sign-in provider has verified the address of each user: NAME@example.test, with a
// point in place of each space.
type post struct {
	*bundle

	server *smtptest.Server
	now    time.Time
	mu     sync.Mutex
	fail   func(command string) error
	noMail map[ids.Tenant]bool // tenants whose policy disables e-mail
}

func setupPost(t *testing.T) *post {
	t.Helper()
	p := &post{bundle: setup(t), now: time.Date(2026, 1, 5, 9, 10, 0, 0, time.UTC), noMail: map[ids.Tenant]bool{}}
	p.server = smtptest.Start(t, smtptest.Config{Fail: func(command string, _ int) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.fail == nil {
			return nil
		}
		return p.fail(command)
	}})
	jobs, err := river.NewClient(riverpgxv5.New(pgtest.As(t, p.db, "gpuaas_work")), &river.Config{Schema: migrations.RiverSchema})
	if err != nil {
		t.Fatal(err)
	}
	mailer := smtp.New(smtp.Config{Host: p.server.Host, Port: p.server.Port})
	t.Cleanup(mailer.Close)
	p.Jobs, p.Clock, p.Metrics = jobs, clock.At(func() time.Time { return p.now }), NewMetrics()
	p.Mail = MailConfig{Mailer: mailer, From: "GPUaaS <noreply@gpuaas.test>", PublicURL: func() string { return "https://gpuaas.test" }}
	policy := p.Policy
	p.Policy = func(tenant ids.Tenant, project ids.Project, user ids.User) policies.View {
		return policy(tenant, project, user).With(string(policies.NotificationEmailEnabled), policies.Platform, !p.noMail[tenant])
	}
	p.exec(`UPDATE users SET oidc_issuer = 'https://idp.test', email = replace(name, ' ', '.') || '@example.test'`)
	return p
}

// raise processes an event of the kind, as its consumer does.
func (p *post) raise(kindName, tenant string) {
	p.t.Helper()
	k := kindOf(p.t, kindName)
	if err := p.raiseEvent(k, p.event(k, tenant)); err != nil {
		p.t.Fatal(err)
	}
}

// queued returns the arguments of all jobs that send e-mails, and removes the jobs.
func (p *post) queued() (all []mails.SendMail) {
	p.t.Helper()
	rows, err := pg.List(p.t.Context(), p.db, "jobs", `DELETE FROM river.river_job WHERE kind = 'send_mail' RETURNING args`, pgx.RowTo[[]byte])
	if err != nil {
		p.t.Fatal(err)
	}
	for _, text := range rows {
		var args mails.SendMail
		if err := json.Unmarshal(text, &args); err != nil {
			p.t.Fatal(err)
		}
		all = append(all, args)
	}
	return all
}

// deliverAll sends the e-mails that are queued, and returns the recipients of all e-mails so far.
func (p *post) deliverAll() []string {
	p.t.Helper()
	for _, args := range p.queued() {
		if err := p.Send(p.t.Context(), args); err != nil {
			p.t.Fatal(err)
		}
	}
	return p.recipients()
}

func (p *post) recipients() (all []string) {
	messages, _ := p.server.Received()
	for _, m := range messages {
		all = append(all, strings.TrimSuffix(strings.Trim(m.Header.Get("To"), "<>"), "@example.test"))
	}
	slices.Sort(all)
	return all
}

// texts returns the plain text of each e-mail.
func (p *post) texts() (all []string) {
	p.t.Helper()
	messages, bodies := p.server.Received()
	for i, m := range messages {
		_, parameters, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
		if err != nil {
			p.t.Fatal(err)
		}
		part, err := multipart.NewReader(strings.NewReader(bodies[i]), parameters["boundary"]).NextRawPart()
		if err != nil {
			p.t.Fatal(err)
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, strings.ReplaceAll(string(text), "\r\n", "\n"))
	}
	return all
}

func (p *post) caller(name string) identity.Caller {
	return identity.Caller{User: ids.From[ids.User](p.users[name]), Tenant: p.tenants[name[:1]], Role: "user"}
}

// put replaces the preferences of a user, or of the user's tenant.
func (p *post) put(name string, tenant bool, w Write) error {
	p.t.Helper()
	c := p.caller(name)
	ctx := pg.WithScope(p.t.Context(), pg.Scope{Tenant: c.Tenant.String(), Principal: c.User.String()})
	api := p.api()
	_, queue, err := api.Put(ctx, c, tenant, 0, w)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	queue(b)
	return pgx.BeginFunc(ctx, api.DB, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
}

// api is the service with the rights of the API.
func (p *post) api() *Service {
	one := *p.Service
	one.DB = pgtest.Scoped(p.t, p.db)
	return &one
}

func (p *post) choose(name, kindName string, c Channel, v Value) {
	p.t.Helper()
	if err := p.put(name, false, Write{Preferences: Preferences{Choices: Choices{kindName: {c: v}}}}); err != nil {
		p.t.Fatal(err)
	}
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if slices.Sort(got); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Errorf("%s: %q, expected %q", what, got, want)
	}
}

// AT-042: a failed provisioning is sent to the members of its project, with its reason.
func TestAFailedProvisioningIsSent(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	k := kindOf(t, "provision_failed")
	e := p.event(k, "a")
	e.CorrelationID = "c-1"
	e.Payload = []byte(strings.Replace(string(e.Payload), `"message":"text"`, `"message":"no node accepts the image"`, 1))
	if err := p.raiseEvent(k, e); err != nil {
		t.Fatal(err)
	}
	same(t, "recipients", p.deliverAll(), "a.project.admin", "a.project.member")
	messages, _ := p.server.Received()
	for i, text := range p.texts() {
		if !strings.Contains(text, "no node accepts the image") || !strings.Contains(text, "https://gpuaas.test/portal/allocations/1") {
			t.Errorf("%q", text)
		}
		h := messages[i].Header
		if h.Get("Subject") != "Provisioning failed" || !strings.HasSuffix(h.Get("Message-Id"), "@gpuaas.test>") || h.Get("References") == "" || h.Get("X-Correlation-ID") != "c-1" {
			t.Errorf("%v", h)
		}
	}
	if messages[0].Header.Get("References") != messages[1].Header.Get("References") {
		t.Error("e-mails about one resource are in two threads")
	}
}

// Each kind is sent to its audience, and to no one whose address is not verified or who is disabled.
func TestAudiencesOfEmails(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.exec(`UPDATE users SET oidc_issuer = 'local' WHERE name = 'a billing'`)
	p.exec(`UPDATE users SET disabled_at = now() WHERE name = 'a project member'`)
	for _, k := range kinds() {
		tenant := "a"
		if k.stream == event.StreamDLQ {
			tenant = ""
		}
		if err := p.raiseEvent(k, p.event(k, tenant)); err != nil {
			t.Fatal(err)
		}
		var got []string
		before := len(p.recipients())
		p.deliverAll()
		messages, _ := p.server.Received()
		for _, m := range messages[before:] {
			got = append(got, strings.TrimSuffix(strings.Trim(m.Header.Get("To"), "<>"), "@example.test"))
		}
		var want []string
		switch {
		case k.severity == Info, k.name == "access_lost": // its user is disabled
		case k.stream == event.StreamProvisioning:
			want = []string{"a.project.admin"}
		case k.stream == event.StreamDLQ:
			want = []string{"admin", "operator"}
		default:
			want = []string{"a.owner"}
		}
		same(t, k.name, got, want...)
	}
}

// An event whose e-mail cannot be written is a failure of its consumer, which makes it a dead letter. Nothing is stored, and a
// retry after the repair notifies the users once.
func TestAnEmailThatCannotBeWrittenFailsTheEvent(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	k := kindOf(t, "low_balance")
	e := p.event(k, "a")
	broken := k
	broken.name = "without_text"
	err := pgx.BeginFunc(t.Context(), p.DB, func(tx pgx.Tx) error {
		about, err := k.render(e)
		if err == nil {
			_, err = p.notify(t.Context(), tx, broken, e, about, []uuid.UUID{p.users["a owner"]})
		}
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "action.without_text") {
		t.Errorf("the effect returns %v", err)
	}
	if list, queued := p.list("a owner"), p.queued(); len(list) != 0 || len(queued) != 0 {
		t.Errorf("%d notifications, %d e-mails", len(list), len(queued))
	}
	if err := p.raiseEvent(k, e); err != nil {
		t.Fatal(err)
	}
	same(t, "recipients", p.deliverAll(), "a.billing", "a.owner")
}

// The owners of a webhook have an e-mail when it is disabled, and another when it works again.
func TestWebhooksAreMailed(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	for _, name := range []string{WebhookDisabled, WebhookRecovered} {
		err := pgx.BeginFunc(t.Context(), p.DB, func(tx pgx.Tx) error {
			_, err := p.NotifyDirectly(t.Context(), tx, Direct{
				Tenant: p.tenants["a"], Audience: identity.Roles{Tenant: []string{"owner"}}, Kind: name, URN: "v:s:-:t:-:webhook:1", Message: "Webhook x: " + name + ".",
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	same(t, "recipients", p.deliverAll(), "a.owner", "a.owner")
	for _, text := range p.texts() {
		if !strings.Contains(text, "Open the webhook: https://gpuaas.test/portal/webhooks/1") {
			t.Errorf("%q", text)
		}
	}
}

// Repeated events of one cause are one e-mail, also of a kind that is off in the application.
func TestRepeatsAreOneEmail(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.choose("a owner", "low_balance", InApp, Off)
	for range 3 {
		p.raise("low_balance", "a")
		p.deliverAll()
	}
	same(t, "recipients", p.recipients(), "a.billing", "a.owner")
	if list := p.list("a owner"); len(list) != 0 {
		t.Errorf("a kind that is off is listed: %+v", list)
	}
	if list := p.list("a billing"); len(list) != 1 || list[0].Count != 3 {
		t.Errorf("%+v", list)
	}
	var count, unread int
	if err := p.db.QueryRow(t.Context(), `SELECT max(count), count(*) FILTER (WHERE read_at IS NULL) FROM notifications WHERE user_id = $1`, p.users["a owner"]).Scan(&count, &unread); err != nil || count != 3 || unread != 0 {
		t.Errorf("%d events, %d unread, %v", count, unread, err)
	}
}

// Another deadline of a release is another e-mail: the allocation ends then.
func TestAChangedDeadlineIsAnotherEmail(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	k := kindOf(t, "release_scheduled")
	e := p.event(k, "a")
	again := func(deadline string) {
		var fields map[string]any
		err := json.Unmarshal(e.Payload, &fields)
		if err == nil {
			fields["deadline_at"] = deadline
			e.Payload, err = json.Marshal(fields)
		}
		if err == nil {
			err = p.raiseEvent(k, e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	again("2026-01-05T14:00:00Z")
	again("2026-01-05T14:00:00Z")
	again("2026-01-05T17:00:00Z")
	p.deliverAll()
	one := 0
	for _, text := range p.texts() {
		if strings.Contains(text, "17:00") {
			one++
		}
	}
	if n := len(p.texts()); one == 0 || n != 2*one {
		t.Errorf("%d e-mails, %d of them with the new deadline", n, one)
	}
}

// An event that repeats an unread notification of an earlier digest is in the next one.
func TestARepetitionIsInTheNextDigest(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.exec(`DELETE FROM tenant_memberships WHERE user_id = $1`, p.users["a billing"])
	p.choose("a owner", "low_balance", Email, Hourly)
	for range 2 {
		p.raise("low_balance", "a")
		p.raise("low_balance", "a")
		p.now = p.now.Add(2 * time.Hour)
		if err := p.QueueDigests(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.deliverAll()
	}
	if n := len(p.texts()); n != 2 {
		t.Errorf("%d digests", n)
	}
}

// A user who has left the tenant, or lost the role, receives no e-mail that still waits.
func TestEmailsEndWithTheRole(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	for _, k := range []string{"low_balance", "provision_failed"} {
		p.raise(k, "a")
	}
	p.exec(`UPDATE tenant_memberships SET role = 'member' WHERE user_id = $1`, p.users["a owner"])
	p.exec(`DELETE FROM tenant_memberships WHERE user_id = $1`, p.users["a project member"])
	p.exec(`DELETE FROM project_memberships WHERE user_id = $1`, p.users["a project member"])
	p.deliverAll()
	for _, to := range p.recipients() {
		if to == "a.owner" || to == "a.project.member" {
			t.Errorf("%s receives an e-mail", to)
		}
	}
	if len(p.recipients()) == 0 {
		t.Error("the others receive none")
	}
}

// A disabled policy sends nothing, also after the e-mail was queued.
func TestDisabledPoliciesSendNothing(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.noMail[p.tenants["a"]] = true
	p.raise("low_balance", "a")
	if all := p.queued(); len(all) != 0 {
		t.Errorf("queued %+v", all)
	}
	p.raise("low_balance", "b")
	p.noMail[p.tenants["b"]] = true
	same(t, "recipients", p.deliverAll())
	delete(p.noMail, p.tenants["a"])
	p.muted[p.users["a owner"]] = true
	p.exec(`DELETE FROM notifications`)
	p.raise("low_balance", "a")
	same(t, "recipients", p.deliverAll(), "a.billing")
}

// The choice of the user precedes the default of the tenant, and that precedes the one of the kind.
func TestWhoseChoiceCounts(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	if err := p.put("a owner", true, Write{Preferences: Preferences{Choices: Choices{"balance_credited": {Email: Now}, "low_balance": {Email: Off}}}}); err != nil {
		t.Fatal(err)
	}
	p.choose("a billing", "balance_credited", Email, Off)
	p.raise("balance_credited", "a")
	p.raise("balance_credited", "b") // the default of the kind
	p.raise("low_balance", "a")
	same(t, "recipients", p.deliverAll(), "a.owner")
	c := p.caller("a billing")
	ctx := pg.WithScope(t.Context(), pg.Scope{Tenant: c.Tenant.String(), Principal: c.User.String()})
	view, err := p.api().Preferences(ctx, c)
	if err != nil || view.Mail == nil || view.Mail.Address != "a.billing@example.test" || !view.Mail.Verified || !view.Mail.Enabled || view.Version != 2 {
		t.Fatalf("%+v, %v", view, err)
	}
	want := map[string]ChannelView{"balance_credited": {Email, Off, FromUser}, "low_balance": {Email, Off, FromTenant}, "refunded": {Email, Off, FromDefault}, "balance_depleted": {Email, Now, FromDefault}}
	for _, k := range view.Kinds {
		if w, ok := want[k.Kind]; ok && k.Channels[1] != w {
			t.Errorf("%s: %+v", k.Kind, k.Channels)
		}
		if k.Kind == "dead_letter" {
			t.Error("a user reads a kind of operators")
		}
	}
}

// What has no effect is rejected, and so are a stale version and rows of others.
func TestPreferencesThatAreRejected(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	for name, c := range map[string]struct {
		write Preferences
		code  errs.Code
	}{
		"a critical kind is off":  {Preferences{Choices: Choices{"balance_depleted": {InApp: Off}}}, errs.SpecInvalid},
		"a scheduled release":     {Preferences{Choices: Choices{"release_scheduled": {InApp: Off}}}, errs.SpecInvalid},
		"a digest in the portal":  {Preferences{Choices: Choices{"low_balance": {InApp: Daily}}}, errs.ValidationError},
		"an unknown kind":         {Preferences{Choices: Choices{"nothing": {Email: Off}}}, errs.ValidationError},
		"a kind of operators":     {Preferences{Choices: Choices{"dead_letter": {Email: Daily}}}, errs.ValidationError},
		"an unknown time zone":    {Preferences{Zone: "Mars/Olympus"}, errs.ValidationError},
		"a path as a time zone":   {Preferences{Zone: "../../etc/passwd"}, errs.ValidationError},
		"the zone of the server":  {Preferences{Zone: "Local"}, errs.ValidationError},
		"quiet hours without end": {Preferences{Quiet: &Quiet{60, 60}}, errs.ValidationError},
	} {
		if err := p.put("a owner", false, Write{Preferences: c.write}); errs.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.put("a owner", true, Write{RevokeLinks: true}); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("links of a tenant: %v", err)
	}
	c := p.caller("a owner")
	ctx := pg.WithScope(t.Context(), pg.Scope{Tenant: c.Tenant.String(), Principal: c.User.String()})
	if _, _, err := p.api().Put(ctx, c, false, 7, Write{}); errs.CodeOf(err) != errs.VersionMismatch {
		t.Errorf("a stale version: %v", err)
	}
	p.choose("b owner", "low_balance", Email, Daily)
	all, err := read(ctx, p.api().DB, []uuid.UUID{p.users["b owner"], p.tenants["b"].UUID})
	if err != nil || len(all[p.users["b owner"]].Choices) != 0 {
		t.Errorf("a user of another tenant reads %+v, %v", all, err)
	}
}

// AT-103: what a digest collects is one e-mail at its time, and quiet hours delay all but critical kinds.
func TestDigestsAndQuietHours(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.exec(`DELETE FROM tenant_memberships WHERE user_id = $1`, p.users["a billing"])
	p.now = time.Date(2028, 2, 28, 21, 30, 0, 0, time.UTC) // 22:30 in Berlin
	if err := p.put("a owner", false, Write{Preferences: Preferences{
		Zone: "Europe/Berlin", Quiet: &Quiet{Start: 22 * 60, End: 7 * 60},
		Choices: Choices{"balance_credited": {Email: Daily}, "refunded": {Email: Daily}},
	}}); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"balance_credited", "refunded", "low_balance", "balance_depleted"} {
		p.raise(k, "a")
		p.raise(k, "a")
	}
	if p.deliverAll(); len(p.texts()) != 1 || !strings.Contains(p.texts()[0], "Balance is depleted") {
		t.Fatalf("at once: %q", p.texts())
	}
	collect := func(at string) []string {
		t.Helper()
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		p.now = when
		before := len(p.texts())
		for range 3 {
			if err := p.QueueDigests(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		p.deliverAll()
		return p.texts()[before:]
	}
	if got := collect("2028-02-29T05:59:59Z"); len(got) != 0 {
		t.Errorf("in quiet hours: %q", got)
	}
	if got := collect("2028-02-29T06:00:00Z"); len(got) != 1 || !strings.Contains(got[0], "Balance is low") {
		t.Errorf("after quiet hours: %q", got)
	}
	got := collect("2028-02-29T07:00:00Z")
	if len(got) != 1 || !strings.Contains(got[0], "Balance was credited") || !strings.Contains(got[0], "Refund was completed") {
		t.Errorf("on the leap day: %q", got)
	}
	if got := collect("2028-03-02T07:00:00Z"); len(got) != 0 {
		t.Errorf("again: %q", got)
	}
	messages, _ := p.server.Received()
	if subject := messages[2].Header.Get("Subject"); subject != "2 notifications" {
		t.Errorf("%q", subject)
	}
}

// Workers that run at the same time queue a digest once.
func TestConcurrentDigests(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.choose("a owner", "low_balance", Email, Hourly)
	p.choose("a billing", "low_balance", Email, Hourly)
	p.raise("low_balance", "a")
	p.now = p.now.Add(time.Hour)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := p.QueueDigests(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	same(t, "recipients", p.deliverAll(), "a.billing", "a.owner")
}

// A notification for a digest that is queued at this moment is sent by itself.
func TestALateNotificationIsNotLost(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.choose("a owner", "low_balance", Email, Hourly)
	p.choose("a owner", "low_balance", Email, Hourly)
	p.exec(`INSERT INTO notification_digests (user_id, period, due_at, id, notification_ids, queued_at) VALUES ($1, 'hourly', '2026-01-05T10:00:00Z', gen_random_uuid(), '{}', now())`, p.users["a owner"])
	p.raise("low_balance", "a")
	same(t, "recipients", p.deliverAll(), "a.billing", "a.owner")
}

// A test states why a channel is not used, and arrives otherwise.
func TestTheTestNotification(t *testing.T) {
	t.Parallel()
	p := setupPost(t)
	p.exec(`UPDATE users SET oidc_issuer = 'local' WHERE name = 'a billing'`)
	run := func(name string) Tested {
		t.Helper()
		c := p.caller(name)
		ctx := pg.WithScope(t.Context(), pg.Scope{Tenant: c.Tenant.String(), Principal: c.User.String()})
		api := p.api()
		made, write, queue, err := api.Test(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := pgx.BeginFunc(ctx, api.DB, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			write(b)
			if err := tx.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
			return queue(tx)
		}); err != nil {
			t.Fatal(err)
		}
		return made
	}
	if got := run("a billing"); !strings.Contains(got.Channels[1].Reason, "verified") || len(p.list("a billing")) != 1 {
		t.Errorf("%+v", got)
	}
	if got := run("a owner"); got.Channels[1].Reason != "" {
		t.Errorf("%+v", got)
	}
	same(t, "recipients", p.deliverAll(), "a.owner")
	if messages, _ := p.server.Received(); messages[0].Header.Get("List-Unsubscribe") != "" {
		t.Error("a test that a user has requested can be ended")
	}
	if _, _, _, err := p.api().Test(t.Context(), identity.Caller{ServiceAccount: ids.New[ids.ServiceAccount]()}); errs.CodeOf(err) != errs.Forbidden {
		t.Errorf("a service account: %v", err)
	}
}
