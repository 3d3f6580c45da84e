package matrix_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// aviary contains secrets by the place where they were planted, and all error responses.
type aviary struct {
	*fixture

	planted map[string]string
	errors  strings.Builder
}

// plant creates a secret that equals no other text.
func (v *aviary) plant(where string) string {
	text := "canary" + strings.ReplaceAll(uuid.NewString(), "-", "")
	v.planted[where] = text
	return text
}

// store stores a secret that the API has created and returned once.
func (v *aviary) store(where, text string) string {
	if text == "" {
		v.Errorf("%s: no secret was returned", where)
		return "-"
	}
	v.planted[where] = text
	return text
}

func (v *aviary) ask(r request) answer {
	got := v.send(r)
	if got.status >= http.StatusBadRequest {
		v.errors.Write(got.body)
	}
	return got
}

// TestINV57CanariesStayHidden plants secrets wherever a caller can send one and has the API create all of
// its own, on calls that succeed and calls that fail. None may be found in logs, traces, error responses,
// or stored rows.
//
//nolint:paralleltest // collects the spans of the whole process
func TestINV57CanariesStayHidden(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	v := &aviary{fixture: newFixture(t), planted: map[string]string{}}
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range openapi.Operations(doc) {
		v.everywhere(o)
	}
	v.signIns()
	v.ours()

	traced, err := json.Marshal(spans.GetSpans().Snapshots())
	if err != nil {
		traced = fmt.Appendf(nil, "%+v", spans.GetSpans())
	}
	if len(spans.GetSpans()) < len(openapi.Operations(doc)) {
		t.Errorf("only %d spans: this test checks too little", len(spans.GetSpans()))
	}
	places := v.atRest()
	places["folder"] = v.onDisk()
	places["log"], places["spans"], places["errors"] = v.log.String(), string(traced)+fmt.Sprintf("%+v", spans.GetSpans()), v.errors.String()
	if len(places["log"]) < 1000 || len(places["table users"]) < 100 {
		t.Error("nothing was logged or stored: this test checks the wrong places")
	}
	for _, place := range sorted(places) {
		for _, where := range sorted(v.planted) {
			for form, text := range forms(v.planted[where]) {
				if at := strings.Index(places[place], text); at >= 0 {
					t.Errorf("the secret in %s was found in %s, %s: …%.160s", where, place, form, places[place][max(at-80, 0):])
					break
				}
			}
		}
		if place != "folder" && strings.Contains(places[place], "PRIVATE KEY") { // the folder contains the server's own
			t.Errorf("a private key was found in %s", place)
		}
	}
	t.Logf("%d secrets, %d places, %d spans", len(v.planted), len(places), len(spans.GetSpans()))
}

// forms returns the encodings in which a text may appear.
func forms(text string) map[string]string {
	return map[string]string{
		"as it is": text, "in hex": hex.EncodeToString([]byte(text)), "in base64": strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(text)), "=")[:len(text)],
	}
}

// everywhere calls an operation with a secret in each place of the request.
func (v *aviary) everywhere(o openapi.Operation) {
	by := v.may(o)
	ids := v.ids(cell{op: o, actor: by, at: own}, false)
	build := func() request { return v.build(o, by, ids) }
	id := o.OperationID

	r := build()
	r.header.Set("Authorization", "Bearer "+v.plant(id+": bearer"))
	v.ask(r)
	r.header.Set("Authorization", "Bearer gpk_"+(v.plant(id+": key") + strings.Repeat("x", 43))[:43])
	v.ask(r)
	r.header.Set("Authorization", "Basic "+v.plant(id+": basic"))
	v.ask(r)

	r = build()
	r.header.Del("Authorization")
	r.header.Set("Cookie", "gpuaas_session="+v.plant(id+": session cookie")+"; other="+v.plant(id+": other cookie"))
	v.ask(r)

	r = build()
	r.path = join(r.path, "token="+v.plant(id+": token in the URL"))
	v.ask(r)
	r = build()
	r.path = join(r.path, "password="+v.plant(id+": another parameter"))
	v.ask(r)

	if by.operates() || !writes(o) { // as it is, with headers that mean nothing
		r = build()
		for _, name := range []string{"X-Secret", "X-Api-Key", "Proxy-Authorization", "X-Auth-Token"} {
			r.header.Set(name, v.plant(id+": "+name))
		}
		v.ask(r)
	}
	if signed(o) {
		r = build()
		r.header.Set("Stripe-Signature", "t=1,v1="+v.plant(id+": signature"))
		r.body = []byte(`{"secret":"` + v.plant(id+": signed body") + `"}`)
		v.ask(r)
	}
	if takesJSON(o) {
		r = build()
		body := v.bodyOf(o)
		body["client_secret"] = v.plant(id + ": unknown field")
		r.body, _ = json.Marshal(body)
		v.ask(r)
		r.body = []byte(`{"secret":"` + v.plant(id+": broken body"))
		v.ask(r)
	}
}

// signIns sends wrong secrets in the fields for secrets.
func (v *aviary) signIns() {
	post := func(path, body string) { v.ask(request{http.MethodPost, path, http.Header{}, []byte(body)}) }
	post("/api/v1/auth/personal/login", `{"email":"nobody@example.org","password":"`+v.plant("login: password")+`"}`)
	post("/api/v1/auth/oidc/exchange", `{"id_token":"`+v.plant("exchange: id_token")+`"}`)
	post("/api/v1/auth/oidc/exchange", `{"code":"`+v.plant("exchange: code")+`","state":"`+v.plant("exchange: state")+`"}`)
	post("/api/v1/auth/token/refresh", `{"refresh_token":"`+v.plant("refresh: token")+`"}`)
	post("/api/v1/service-accounts/token", `{"secret":"gps_`+v.plant("mint: secret")+`"}`)
	leave := v.newActor("leaves", v.a, "tenant.owner")
	v.withSession(leave)
	v.ask(leave.create("/api/v1/auth/logout", uuid.UUID{}, "", `{"refresh_token":"`+v.plant("logout: token")+`"}`))
	v.ask(v.a.owner.create("/api/v1/ssh-keys", uuid.UUID{}, "",
		`{"name":"oops","public_key":"-----BEGIN OPENSSH PRIVATE KEY-----\n`+v.plant("ssh: private key")+`\n-----END OPENSSH PRIVATE KEY-----\n"}`))
	v.ask(v.a.owner.create("/api/v1/ssh-keys", uuid.UUID{}, "", `{"name":"oops","public_key":"ssh-ed25519 `+v.plant("ssh: no key")+`"}`))
}

// ours makes the API create each kind of its own secrets, with an idempotency key, because the
// response to a repetition is stored.
func (v *aviary) ours() {
	owner := v.a.owner
	for _, a := range v.actors {
		if a.token != "" {
			v.planted["token of "+a.name] = a.token
		}
	}
	made := v.ask(owner.create("/api/v1/api-keys", uuid.UUID{}, "canary", `{"name":"canary"}`))
	v.ask(request{http.MethodGet, "/api/v1/users/me", http.Header{"Authorization": {"Bearer " + v.store("createApiKey", made.created("gpk_"))}}, nil})

	made = v.ask(owner.create("/api/v1/storage/keys", v.a.project, "canary", `{"name":"canary"}`))
	v.store("createStorageKey", made.created("gpo_"))

	account := v.fresh("ServiceAccountID", v.a, owner)
	made = v.ask(owner.create("/api/v1/service-accounts/"+account+"/credentials", uuid.UUID{}, "canary", `{}`))
	secret := v.store("createCredential", made.created("gps_"))
	made = v.ask(request{http.MethodPost, "/api/v1/service-accounts/token", http.Header{}, []byte(`{"secret":"` + secret + `"}`)})
	minted := v.store("mintServiceAccountToken", field(made.body, "access_token"))
	v.ask(request{http.MethodGet, "/api/v1/allocations", http.Header{"Authorization": {"Bearer " + minted}}, nil})

	set := owner.create("/api/v1/users/me/password", uuid.UUID{}, "canary", `{"password":"`+v.plant("setPassword")+`"}`)
	set.method = http.MethodPut
	if got := v.ask(set); got.status != http.StatusNoContent {
		v.Errorf("setting a password: %d %s", got.status, got.body)
	}
	email := queryOne[string](v.installation, `SELECT email FROM users WHERE id = $1`, owner.user)
	made = v.ask(request{http.MethodPost, "/api/v1/auth/personal/login", http.Header{}, []byte(`{"email":"` + email + `","password":"` + v.planted["setPassword"] + `"}`)})
	v.store("loginPersonal", made.created("gpb_"))
	made = v.ask(v.admin.create("/api/v1/admin/nodes/"+node+"/enrolment-token", uuid.UUID{}, "canary", `{}`))
	v.store("createEnrolmentToken", made.created("gpe_"))
}

// created returns the string of a response that begins with prefix.
func (a answer) created(prefix string) string {
	var object map[string]any
	_ = json.Unmarshal(a.body, &object)
	for value := range maps.Values(object) {
		if text, ok := value.(string); ok && strings.HasPrefix(text, prefix) {
			return text
		}
	}
	return ""
}

// onDisk returns the files in the server's folder.
func (v *aviary) onDisk() string {
	var all strings.Builder
	err := filepath.WalkDir(v.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		v.Fatal(err)
	}
	return all.String()
}

// atRest returns every table of the database as text.
func (v *aviary) atRest() map[string]string {
	ctx := context.WithoutCancel(v.Context())
	places := map[string]string{}
	for _, table := range v.tables() {
		rows, err := v.db.Query(ctx, "SELECT t::text FROM "+table+" t")
		if err != nil {
			v.Fatal(err)
		}
		text, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			v.Fatal(err)
		}
		places["table "+table] = strings.Join(slices.Compact(text), "\n")
	}
	return places
}
