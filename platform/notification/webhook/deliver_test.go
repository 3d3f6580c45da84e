package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

// An event reaches the endpoints whose patterns and project match it, once, with its envelope as the body.
func TestAnEventIsDelivered(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	sent := draft(b.tenant, b.project, "provisioning.active")
	b.dispatch(sent, sent, draft(b.tenant, b.project, "billing.balance_depleted")) // twice: an operator repeats the consumer
	if b.deliver(e.ID) {
		t.Error("something is still due")
	}
	got := r.all()
	want, _ := json.Marshal(sent)
	if len(got) != 1 || got[0].body != string(want) || got[0].header.Get("Webhook-Id") != sent.ID.String() || got[0].header.Get("Content-Type") != "application/json" {
		t.Fatalf("received %+v, want %s", got, want)
	}
	d := b.list(e)
	if len(d) != 1 || d[0].Status != "delivered" || len(d[0].Attempts) != 1 || d[0].Attempts[0].Status != 200 || !d[0].Attempts[0].Delivered || d[0].Event != sent.ID {
		t.Errorf("deliveries %+v", d)
	}
	if n := b.count(`SELECT count(*) FROM river.river_job WHERE kind = 'deliver_webhook'`); n != 1 {
		t.Errorf("%d jobs of one endpoint", n)
	}
	b.deliver(e.ID)
	if len(r.all()) != 1 {
		t.Error("a delivered event was sent again")
	}
}

// A foreign tenant's event, one without a tenant, and one of another project never reach an endpoint.
func TestEventsStayInTheirTenantAndProject(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	all := []string{"provisioning.*", "fleet.*", "billing.*"}
	whole := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL, Patterns: all})
	narrow := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL, Patterns: all[:1], Project: b.project})
	b.dispatch(
		draft(b.other, b.project, "provisioning.active"), draft(ids.Tenant{}, ids.Project{}, "fleet.node_retiring"),
		draft(b.tenant, ids.New[ids.Project](), "provisioning.active"), draft(b.tenant, ids.Project{}, "billing.balance_depleted"), draft(b.tenant, b.project, "provisioning.failed"),
	)
	if n, m := len(b.list(whole)), len(b.list(narrow)); n != 3 || m != 1 {
		t.Errorf("the endpoint of the tenant has %d deliveries and that of the project %d", n, m)
	}
	if _, err := b.api.Get(b.as(b.other), webhook.Scope{Tenant: b.other}, whole.ID); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("another tenant reads the endpoint: %v", err)
	}
	if _, err := b.api.Get(b.as(b.tenant), webhook.Scope{Tenant: b.tenant, Project: b.project}, whole.ID); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("an administrator of a project reads an endpoint of the tenant: %v", err)
	}
}

// Each failure has its pause, with the jitter. After the tenth the delivery is given up.
func TestRetriesFollowTheSchedule(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	r.status(500)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	sent := draft(b.tenant, b.project, "provisioning.active")
	b.dispatch(sent)
	for n := range 10 {
		b.exec(`UPDATE webhook_endpoints SET failing_since = now() WHERE id = $1 AND failing_since IS NOT NULL`, e.ID) // not for five days
		b.deliver(e.ID)
		d := b.list(e)[0]
		if len(d.Attempts) != n+1 || d.Attempts[n].Error != "the receiver responded 500" {
			t.Fatalf("after %d failures: %+v", n+1, d)
		}
		if n == 9 {
			if d.Status != "failed" || d.NextAt != nil {
				t.Errorf("after the tenth failure: %+v", d)
			}
			break
		}
		pause, want := time.Until(*d.NextAt), webhook.Pauses[n]
		if slack := 5 * time.Second; pause < want*9/10-slack || pause > want*11/10+slack || d.Status != "pending" {
			t.Errorf("the pause after failure %d is %s, want %s", n+1, pause, want)
		}
		b.later(e, want*2)
	}
	if got := r.ids(); len(got) != 10 || len(slices.Compact(got)) != 1 {
		t.Errorf("the ids of the attempts are %v", got)
	}
	if _, again := webhook.PauseAfter(10); again {
		t.Error("there is an eleventh attempt")
	}
}

// What a receiver responds decides what follows.
func TestResponses(t *testing.T) {
	t.Parallel()
	redirected := newReceiver(t)
	for what, c := range map[string]struct {
		respond func(http.ResponseWriter, *http.Request)
		status  string
		paused  time.Duration // of the endpoint
		reason  string        // of its end
		text    string        // in the attempt
	}{
		"200": {nil, "delivered", 0, "", ""},
		"204": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "delivered", 0, "", ""},
		"302": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, redirected.URL, http.StatusFound) }, "pending", 0, "", "responded 302"},
		"308": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, redirected.URL, http.StatusPermanentRedirect)
		}, "pending", 0, "", "responded 308"},
		"410": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, "skipped", 0, "gone", "responded 410"},
		"429": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, "pending", time.Minute, "", "responded 429"},
		"429 with Retry-After": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "pending", 2 * time.Minute, "", "responded 429"},
		"503 with a date": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "pending", 10 * time.Minute, "", "responded 503"},
		"502": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "pending", time.Minute, "", "responded 502"},
		"Retry-After of a year": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "31536000")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "pending", 24 * time.Hour, "", "responded 503"},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
					return
				}
			}
		}, "delivered", 0, "", ""},
		"silent":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "pending", time.Minute, "", "did not respond"},
		"cut off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "pending", 0, "", "EOF"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b, r := setup(t), newReceiver(t)
			r.answers(c.respond)
			e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
			b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
			b.deliver(e.ID)
			d, now := b.list(e)[0], b.get(e)
			if d.Status != c.status || len(d.Attempts) != 1 || !strings.Contains(d.Attempts[0].Error, c.text) || len(d.Response) > 16<<10 {
				t.Errorf("the delivery is %s, attempts %+v, a response of %d bytes", d.Status, d.Attempts, len(d.Response))
			}
			if now.DisabledReason != c.reason {
				t.Errorf("disabled: %q", now.DisabledReason)
			}
			paused := time.Duration(0)
			if now.BlockedUntil != nil {
				paused = time.Until(*now.BlockedUntil)
			}
			if paused < c.paused-10*time.Second || paused > c.paused+time.Second {
				t.Errorf("the endpoint pauses for %s, want %s", paused, c.paused)
			}
			if c.paused > 0 {
				b.exec(`UPDATE webhook_deliveries SET next_at = now() - interval '1 second' WHERE status = 'pending'`)
				if b.deliver(e.ID); len(b.list(e)[0].Attempts) != 1 {
					t.Error("the endpoint got a request in its pause")
				}
			}
			if len(redirected.all()) > 0 {
				t.Error("a redirect was followed")
			}
		})
	}
}

// A certificate that is not trusted is a failure, and the receiver sees no message.
func TestTLSIsVerified(t *testing.T) {
	t.Parallel()
	b := setup(t)
	requests := make(chan struct{}, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests <- struct{}{} }))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: server.URL})
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	b.deliver(e.ID)
	if d := b.list(e)[0]; d.Status != "pending" || !strings.Contains(d.Attempts[0].Error, "certificate") || len(requests) > 0 {
		t.Errorf("%+v", d)
	}
}

// The rule of the end: the endpoint is down for five days, is disabled, its owner is notified, its events are skipped. After
// it was enabled, the replay brings all of them, and the owner is notified that it works again.
func TestAFailingEndpointIsDisabledAndReplayed(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	r.status(500)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	var all []string
	emit := func() {
		sent := draft(b.tenant, b.project, "provisioning.active")
		all = append(all, sent.ID.String())
		b.dispatch(sent)
	}
	emit()
	b.deliver(e.ID)
	b.later(e, 2*24*time.Hour)
	emit()
	b.deliver(e.ID)
	if now := b.get(e); now.DisabledAt != nil || now.FailingSince == nil {
		t.Fatalf("after two days: %+v", now)
	}
	b.later(e, 3*24*time.Hour+time.Hour)
	emit()
	b.deliver(e.ID)
	now := b.get(e)
	if now.DisabledReason != "failures" || b.count(`SELECT count(*) FROM notifications WHERE user_id = $1 AND kind = 'webhook_disabled'`, b.owner) != 1 {
		t.Fatalf("after five days: %+v", now)
	}
	if b.count(`SELECT count(*) FROM audit_logs WHERE action = 'webhook.disable' AND org_id = $1`, b.tenant) != 1 {
		t.Error("no audit row")
	}
	emit()
	for _, d := range b.list(e) {
		if d.Status != "skipped" {
			t.Errorf("a delivery of a disabled endpoint is %s", d.Status)
		}
	}
	scope := webhook.Scope{Tenant: b.tenant}
	replay := webhook.Replay{}
	if _, err := b.api.Replay(b.as(b.tenant), change[int64](b.caller(b.tenant)), scope, e.ID, replay); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("a disabled endpoint was replayed: %v", err)
	}
	r.status(200)
	before := len(r.all())
	enabled := false
	if now, err := b.api.Update(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), scope, e.ID, now.Version, webhook.Patch{Disabled: &enabled}); err != nil || now.DisabledAt != nil || now.FailingSince != nil {
		t.Fatalf("enabled: %+v, %v", now, err)
	}
	if n, err := b.api.Replay(b.as(b.tenant), change[int64](b.caller(b.tenant)), scope, e.ID, replay); err != nil || int(n) != len(all) {
		t.Fatalf("replayed %d of %d, %v", n, len(all), err)
	}
	b.deliver(e.ID)
	got := r.ids()[before:]
	slices.Sort(got)
	slices.Sort(all)
	if !slices.Equal(got, all) {
		t.Errorf("received %v, want %v", got, all)
	}
	if b.count(`SELECT count(*) FROM notifications WHERE user_id = $1 AND kind = 'webhook_recovered'`, b.owner) != 1 {
		t.Error("the owner was not notified that it works again")
	}
	// All since a time: those that were delivered, too.
	from := time.Now().Add(-time.Hour)
	if n, err := b.api.Replay(b.as(b.tenant), change[int64](b.caller(b.tenant)), scope, e.ID, webhook.Replay{All: true, From: &from}); err != nil || int(n) != len(all) {
		t.Errorf("replayed %d since a time, %v", n, err)
	}
	if _, err := b.api.Replay(b.as(b.tenant), change[int64](b.caller(b.tenant)), scope, e.ID, webhook.Replay{All: true}); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("all without a time: %v", err)
	}
}

// A delivery is sent again with the same id and a new schedule. An endpoint without failures pauses no other.
func TestADeliveryIsResent(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	b.deliver(e.ID)
	first := b.list(e)[0]
	d, err := b.api.Resend(b.as(b.tenant), change[webhook.Delivery](b.caller(b.tenant)), webhook.Scope{Tenant: b.tenant}, e.ID, first.ID)
	if err != nil || d.Status != "pending" {
		t.Fatal(d, err)
	}
	b.deliver(e.ID)
	if got := r.ids(); len(got) != 2 || got[0] != got[1] || len(b.list(e)[0].Attempts) != 2 {
		t.Errorf("received %v", got)
	}
	if _, err := b.api.Resend(b.as(b.other), change[webhook.Delivery](b.caller(b.other)), webhook.Scope{Tenant: b.other}, e.ID, first.ID); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("another tenant resends: %v", err)
	}
}

// A worker is killed after the receiver has got the message and before the result is stored: the next one sends it again,
// once, with the same id.
func TestAKilledWorkerSendsAtMostOneDuplicate(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	b.exec(`REVOKE UPDATE ON webhook_deliveries FROM gpuaas_work`) // the result cannot be stored
	if err := b.work.Deliver(t.Context(), e.ID); err == nil {
		t.Fatal("the result was stored")
	}
	b.exec(`GRANT UPDATE ON webhook_deliveries TO gpuaas_work`)
	b.deliver(e.ID)
	b.deliver(e.ID)
	if got := r.ids(); len(got) != 2 || got[0] != got[1] {
		t.Errorf("received %v", got)
	}
}

// A job that ends finds what was dispatched meanwhile, and stores when the next delivery is due.
func TestNothingIsLostBetweenTwoJobs(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	if err := b.work.Deliver(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	b.dispatch(draft(b.tenant, b.project, "provisioning.active")) // its job is that of the running worker
	if !b.deliver(ids.From[ids.Webhook](e.ID.UUID)) && len(r.all()) != 2 {
		t.Errorf("received %d", len(r.all()))
	}
	r.status(500)
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	if b.deliver(e.ID) {
		t.Error("a retry is due at once")
	}
	if due, err := b.work.RetryDue(t.Context()); err != nil || due {
		t.Errorf("due: %v, %v", due, err)
	}
	b.later(e, 10*time.Second)
	b.exec(`DELETE FROM river.river_job`)
	if due, err := b.work.RetryDue(t.Context()); err != nil || !due {
		t.Errorf("not due: %v", err)
	}
	if err := b.work.QueueRetries(t.Context()); err != nil || b.count(`SELECT count(*) FROM river.river_job`) != 1 {
		t.Errorf("no job: %v", err)
	}
}

// Failing endpoints occupy a part of the workers only.
func TestFailingEndpointsLeaveWorkersForOthers(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	b.work.SetImpaired(1)
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	r.answers(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		w.WriteHeader(http.StatusInternalServerError)
	})
	var failing []webhook.Endpoint
	for range 2 {
		failing = append(failing, b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL}))
	}
	b.exec(`UPDATE webhook_endpoints SET failing_since = now()`)
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	var first sync.WaitGroup
	first.Go(func() {
		if err := b.work.Deliver(t.Context(), failing[0].ID); err != nil {
			t.Error(err)
		}
	})
	<-arrived
	if err := b.work.Deliver(t.Context(), failing[1].ID); !errors.Is(err, webhook.ErrBusy) {
		t.Errorf("a second worker waits for a failing endpoint: %v", err)
	}
	close(release)
	first.Wait()
}

// Failures that are far apart do not add up: the first one after two quiet days begins a new time.
func TestOldFailuresDoNotDisable(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	r.status(500)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	b.exec(`UPDATE webhook_endpoints SET failing_since = now() - interval '30 days', failed_at = now() - interval '27 days'`)
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	b.deliver(e.ID)
	if now := b.get(e); now.DisabledAt != nil || now.FailingSince == nil || time.Since(*now.FailingSince) > time.Hour {
		t.Errorf("%+v", now)
	}
}

// A worker that stops before a response has found out nothing about the endpoint.
func TestAStoppedWorkerChangesNoEndpoint(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	ctx, stop := context.WithCancel(t.Context())
	r.answers(func(w http.ResponseWriter, _ *http.Request) {
		stop()
		w.WriteHeader(http.StatusInternalServerError)
	})
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	b.exec(`UPDATE webhook_endpoints SET failing_since = now() - interval '6 days', failed_at = now(), version = 7`)
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	if err := b.work.Deliver(ctx, e.ID); err != nil {
		t.Fatal(err)
	}
	if now := b.get(e); now.DisabledAt != nil || now.FailingSince == nil {
		t.Errorf("%+v", now)
	}
}

// What a receiver has accepted while its endpoint was disabled is delivered, and not sent again by a replay.
func TestADeliveryDuringADisablementIsStored(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	r.answers(func(w http.ResponseWriter, _ *http.Request) {
		disabled := true
		if _, err := b.api.Update(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), webhook.Scope{Tenant: b.tenant}, e.ID, e.Version, webhook.Patch{Disabled: &disabled}); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusOK)
	})
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	b.deliver(e.ID)
	if all := b.list(e); len(all) != 1 || all[0].Status != "delivered" || len(all[0].Attempts) != 1 {
		t.Errorf("%+v", all)
	}
}

// A corrected URL is tried at once, and the failures of the old one do not count.
func TestAnotherURLBeginsWithoutFailures(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	b.exec(`UPDATE webhook_endpoints SET failing_since = now() - interval '4 days', failed_at = now(), blocked_until = now() + interval '1 day'`)
	other := r.URL + "/other"
	now, err := b.api.Update(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), webhook.Scope{Tenant: b.tenant}, e.ID, e.Version, webhook.Patch{URL: &other})
	if err != nil {
		t.Fatal(err)
	}
	if stored := b.get(e); stored.FailingSince != nil || stored.BlockedUntil != nil || now.FailingSince != nil || now.BlockedUntil != nil {
		t.Errorf("stored %+v, returned %+v", stored, now)
	}
}

// An endpoint whose last responses were slow occupies a worker of those that may wait.
func TestSlowEndpointsLeaveWorkersForOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: newReceiver(t).URL})
	b.work.SetImpaired(0)
	b.work.SetSlow(e.ID)
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	if err := b.work.Deliver(t.Context(), e.ID); !errors.Is(err, webhook.ErrBusy) {
		t.Errorf("a slow endpoint is served: %v", err)
	}
}

// A slow endpoint gets no further request in its batch, and the deliveries that were not sent have no attempt.
func TestASlowEndpointEndsItsBatch(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	r.status(429)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	for range 40 {
		b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	}
	b.deliver(e.ID)
	if n := len(r.all()); n == 0 || n > 16 {
		t.Errorf("%d requests", n)
	}
	if n, m := b.count(`SELECT count(*) FROM webhook_deliveries WHERE attempts = 0`), b.count(`SELECT count(*) FROM webhook_deliveries WHERE status = 'pending'`); n < 24 || m != 40 {
		t.Errorf("%d without an attempt, %d pending", n, m)
	}
}

// The message of Slack is the notification of the event, or its type and resource. Its characters cannot be a mention.
func TestSlackMessages(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL, Format: webhook.Slack, Patterns: []string{"provisioning.*", "billing.*"}})
	known, other := draft(b.tenant, b.project, "provisioning.failed"), draft(b.tenant, ids.Project{}, "billing.balance_adjusted")
	known.Payload = json.RawMessage(`{"allocation_id": "a1", "message": "<!channel> & more\u202e\nSecond"}`)
	b.dispatch(known, other)
	b.deliver(e.ID)
	var texts []string
	for _, got := range r.all() {
		var m map[string]string
		if err := json.Unmarshal([]byte(got.body), &m); err != nil || len(m) != 1 {
			t.Fatal(got.body, err)
		}
		texts = append(texts, m["text"])
	}
	slices.Sort(texts)
	if len(texts) != 2 || !strings.Contains(texts[0], "&lt;!channel&gt; &amp; more Second") || texts[1] != "billing.balance_adjusted v:s:-:t:p:allocation:1" {
		t.Errorf("%q", texts)
	}
}

// A test sends a signed message, also to a disabled endpoint, and stores no delivery.
func TestATestIsSentNow(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	r.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"password": "hidden", "text": "Bearer abc and more"}`))
	})
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	result, err := b.api.Test(b.as(b.tenant), change[webhook.TestResult](b.caller(b.tenant)), webhook.Scope{Tenant: b.tenant}, e.ID)
	if err != nil || result.Delivered || result.Status != 500 || strings.Contains(result.Response, "hidden") || strings.Contains(result.Response, "abc") {
		t.Fatalf("%+v, %v", result, err)
	}
	var sent event.Event
	if err := json.Unmarshal([]byte(r.all()[0].body), &sent); err != nil || sent.Type != webhook.TestType || sent.ID.String() != result.MessageID || len(b.list(e)) != 0 {
		t.Errorf("%+v, %v", sent, err)
	}
	if b.count(`SELECT count(*) FROM audit_logs WHERE action = 'webhook.test'`) != 1 {
		t.Error("no audit row")
	}
}

// The counters have the requests, and the gauge the time of a due delivery of an endpoint that works.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	b.exec(`UPDATE webhook_deliveries SET next_at = now() - interval '100 seconds'`)
	gather := func() string {
		registry := prometheus.NewRegistry()
		registry.MustRegister(b.work.Metrics)
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Body.String()
	}
	if text := gather(); !strings.Contains(text, "gpuaas_webhook_backlog_seconds 10") {
		t.Error(text)
	}
	b.deliver(e.ID)
	r.status(500)
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	b.deliver(e.ID)
	text := gather()
	for _, sample := range []string{
		`gpuaas_webhook_deliveries_total{result="delivered"} 1`, `gpuaas_webhook_deliveries_total{result="failed"} 1`, `gpuaas_webhook_latency_seconds_count 2`, "gpuaas_webhook_backlog_seconds 0",
	} {
		if !strings.Contains(text, sample) {
			t.Errorf("no %s in %s", sample, text)
		}
	}
}
