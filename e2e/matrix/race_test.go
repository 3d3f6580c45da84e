package matrix_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// atOnce sends all requests at the same time and returns the responses at the same indexes.
func (h *installation) atOnce(all []request) []answer {
	h.Helper()
	answers, errors := make([]answer, len(all)), make([]error, len(all))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, r := range all {
		wg.Go(func() {
			<-start
			answers[i], errors[i] = h.try(r)
		})
	}
	close(start)
	wg.Wait()
	for i, err := range errors {
		if err != nil {
			h.Fatalf("%s %s: %v", all[i].method, all[i].path, err)
		}
	}
	return answers
}

func (a *actor) create(path string, project uuid.UUID, key, body string) request {
	h := a.header()
	if project != (uuid.UUID{}) {
		h.Set("X-Project-ID", project.String())
	}
	if key != "" {
		h.Set("X-Idempotency-Key", key)
	}
	return request{http.MethodPost, path, h, []byte(body)}
}

// left counts the allocations before the last one that a cap allows.
const (
	left   = 3
	racers = 200
)

// TestINV07CapsLimitParallelCreates fills every cap to one below its limit. Two hundred creates then
// compete for the last allocation.
func TestINV07CapsLimitParallelCreates(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"user", "project", "tenant"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, func(h *installation) {
				h.policy("allocation.max_concurrent_per_"+level, "platform", fmt.Sprint(left+1))
			})
			// One allocation exists already. Each cap is tested by creates that share only this cap.
			people, projects := []*actor{w.a.owner}, []uuid.UUID{w.a.project}
			for range left {
				if level != "user" {
					people = append(people, w.newActor("racer", w.a, "tenant.owner"))
				}
				if level == "tenant" {
					projects = append(projects, w.newProject(w.a))
				}
			}
			ask := func(i int) request {
				return people[i%len(people)].create("/api/v1/allocations", projects[i%len(projects)], "", fmt.Sprintf(`{"sku":%q,"name":"race-%d"}`, sku, i))
			}
			for i := range left - 1 {
				if got := w.send(ask(racers + i)); got.status != http.StatusCreated {
					t.Fatalf("%d %s", got.status, got.body)
				}
			}
			all := make([]request, racers)
			for i := range all {
				all[i] = ask(i)
			}
			passed := 0
			for _, got := range w.atOnce(all) {
				switch {
				case got.status == http.StatusCreated:
					passed++
				case got.status == http.StatusTooManyRequests && got.code() == "concurrency_limit_reached":
				default:
					t.Errorf("%d %.200s", got.status, got.body)
				}
			}
			if held := queryOne[int](w.installation, `SELECT count(*) FROM allocations WHERE org_id = $1`, w.a.tenant); passed != 1 || held != left+1 {
				t.Errorf("%d of %d came through: there are %d and the cap is %d", passed, racers, held, left+1)
			}
		})
	}
}

// duplicates is the number of concurrent requests with one idempotency key.
const duplicates = 100

// TestINV06OneKeyOneEffectAtTheAPI sends each request a hundred times at once,
// and once more afterwards.
func TestINV06OneKeyOneEffectAtTheAPI(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, c := range []struct {
		path, body string
		count      string
		project    uuid.UUID
	}{
		{"/api/v1/allocations", `{"sku":"` + sku + `","name":"once"}`, `SELECT count(*) FROM allocations WHERE name = 'once'`, w.a.project},
		{"/api/v1/projects", `{"name":"once"}`, `SELECT count(*) FROM projects WHERE name = 'once'`, uuid.UUID{}},
		{"/api/v1/api-keys", `{"name":"once"}`, `SELECT count(*) FROM api_keys WHERE name = 'once'`, uuid.UUID{}},
	} {
		all := make([]request, duplicates)
		for i := range all {
			all[i] = w.a.owner.create(c.path, c.project, "one-key", c.body)
		}
		before := queryOne[int](w.installation, `SELECT count(*) FROM audit_logs`)
		var first answer
		done := 0
		for _, got := range append(w.atOnce(all), w.send(all[0])) {
			switch {
			case got.status == http.StatusConflict && got.code() == "idempotency_in_flight":
				continue
			case got.status != http.StatusCreated:
				t.Errorf("%s: %d %.200s", c.path, got.status, got.body)
				continue
			}
			if got.header.Get("Idempotency-Replayed") == "" {
				done++
			}
			if first.status == 0 {
				first = got
			}
			if string(got.body) != string(first.body) || got.header.Get("Location") != first.header.Get("Location") {
				t.Errorf("%s: one key, two answers: %s and %s", c.path, first.body, got.body)
			}
		}
		if made := queryOne[int](w.installation, c.count); made != 1 || done != 1 {
			t.Errorf("%s: %d effects, %d answers that are no replay", c.path, made, done)
		}
		if rows := queryOne[int](w.installation, `SELECT count(*) FROM audit_logs`) - before; rows != 1 {
			t.Errorf("%s: %d audit rows for one effect", c.path, rows)
		}
		// The same key of another tenant is a request of its own.
		stranger := w.b.owner.create(c.path, c.project, "one-key", c.body)
		if c.project == w.a.project {
			stranger.header.Set("X-Project-ID", w.b.project.String())
		}
		if got := w.send(stranger); got.status != http.StatusCreated || got.header.Get("Idempotency-Replayed") != "" || field(got.body, "id") == field(first.body, "id") {
			t.Errorf("%s: another tenant with the same key: %d %.200s", c.path, got.status, got.body)
		}
		// The same key for another request is rejected, at any time.
		other := w.a.owner.create(c.path, c.project, "one-key", `{"name":"twice","sku":"`+sku+`"}`)
		if c.path != "/api/v1/allocations" {
			other.body = []byte(`{"name":"twice"}`)
		}
		if got := w.send(other); got.code() != "idempotency_key_reused" {
			t.Errorf("%s: the same key with another body: %d %.200s", c.path, got.status, got.body)
		}
	}
}

// TestINV06AnswerIsLost commits changes whose responses are lost, ends the server, and repeats the requests
// at the next server with the same keys. The end-to-end tests kill at the exact failpoint; this test covers
// every kind of response, also those with a secret.
func TestINV06AnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	account := w.fresh("ServiceAccountID", w.a, w.a.owner)
	const count = `SELECT count(*) FROM audit_logs WHERE correlation_id LIKE $1 || '%'`
	kinds := map[string]struct{ path, body, shows string }{
		"allocation": {"/api/v1/allocations", `{"sku":"` + sku + `","name":"lost"}`, ""},
		"project":    {"/api/v1/projects", `{"name":"lost"}`, ""},
		"invitation": {"/api/v1/tenant/invitations", `{"email":"lost@example.org","role":"member"}`, ""},
		"key":        {"/api/v1/api-keys", `{"name":"lost"}`, "gpk_"},
		"credential": {"/api/v1/service-accounts/" + account + "/credentials", `{}`, "gps_"},
	}
	ask := func(kind, try string) request {
		project := uuid.UUID{}
		if kind == "allocation" {
			project = w.a.project
		}
		r := w.a.owner.create(kinds[kind].path, project, "lost", kinds[kind].body)
		r.header.Set("X-Correlation-ID", "lost-"+kind+"-"+try)
		return r
	}
	deadline := time.Now().Add(time.Minute)
	for _, kind := range sorted(kinds) {
		abandoned := w.abandon(ask(kind, "first"))
		for queryOne[int](w.installation, count, "lost-"+kind) == 0 {
			if time.Now().After(deadline) {
				t.Fatal("nothing was committed")
			}
			time.Sleep(time.Millisecond)
		}
		_ = abandoned.Close()
	}
	w.stop()
	w.start()
	for _, kind := range sorted(kinds) {
		got := w.send(ask(kind, "again"))
		if got.status != http.StatusCreated || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: repeated: %d %.200s", kind, got.status, got.body)
		}
		if kinds[kind].shows != "" && got.created(kinds[kind].shows) == "" {
			t.Errorf("%s: the secret is lost with the answer: %.200s", kind, got.body)
		}
		if effects := queryOne[int](w.installation, count, "lost-"+kind); effects != 1 {
			t.Errorf("%s: %d effects of one key", kind, effects)
		}
	}
}

// abandon sends a request and does not read the response.
func (h *installation) abandon(r request) net.Conn {
	h.Helper()
	conn, err := h.dial(h.Context(), "tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.Fatal(err)
	}
	req, err := http.NewRequestWithContext(h.Context(), r.method, h.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		h.Fatal(err)
	}
	req.Header = r.header
	req.Header.Set("Content-Type", "application/json")
	if err := req.Write(conn); err != nil {
		h.Fatal(err)
	}
	return conn
}
