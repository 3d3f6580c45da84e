package matrix_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi"
)

var (
	seed = flag.Uint64("seed", 1, "what the fuzzer draws its requests from")
	only = flag.String("op", "", "fuzz this operation alone")
)

// draw is one request by its numbers: the same ones draw the same again.
type draw struct {
	op   string
	seed uint64
	n    int
}

func (d draw) rand() *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(d.op))
	return rand.New(rand.NewPCG(d.seed, h.Sum64()+uint64(d.n)))
}

// TestR11Fuzz sends what the contract allows, what it nearly allows, and what
// no client should send. Nothing may break the server or the contract (INV-57).
func TestR11Fuzz(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("-seed=%d", *seed)
	all := map[string]openapi.Operation{}
	for _, o := range openapi.Operations(doc) {
		all[o.OperationID] = o
		if *only == "" || *only == o.OperationID {
			for n := range perOperation {
				w.fuzz(doc, o, draw{o.OperationID, *seed, n})
			}
		}
	}
	for _, d := range found(t) {
		if o, known := all[d.op]; known {
			w.fuzz(doc, o, d)
		}
	}
	statuses := ""
	for _, status := range sorted(w.counts) {
		statuses += fmt.Sprintf(" %s×%d", status, w.counts[status])
	}
	t.Logf("answers:%s", statuses)
}

// found are the draws that once broke something.
func found(t *testing.T) (all []draw) {
	t.Helper()
	file, err := os.Open("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var d draw
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &d.op, &d.seed, &d.n); err != nil {
			t.Fatalf("testdata/seeds: %q: %v", lines.Text(), err)
		}
		all = append(all, d)
	}
	return all
}

func (w *fixture) fuzz(doc *openapi3.T, o openapi.Operation, d draw) {
	f := &fuzzer{Rand: d.rand(), w: w, o: o}
	r, by := f.request()
	got, err := w.try(r)
	if err != nil {
		w.Errorf("%s -seed=%d request %d: %v\n%s", d.op, d.seed, d.n, err, show(r))
		return
	}
	w.counts[fmt.Sprint(got.status)]++
	why := conforms(doc, o, r, got)
	if f.elsewhere && (got.status == http.StatusNotFound || got.status == http.StatusMethodNotAllowed || got.status == http.StatusBadRequest) {
		why = enveloped(r, got) // the router may have rejected it before this operation
	}
	if why != "" {
		w.Errorf("%s -seed=%d request %d: %s\n%s\nanswer %d %v %.300s", d.op, d.seed, d.n, why, show(r), got.status, got.header, got.body)
	}
	if ends[o.OperationID] {
		w.renew(by)
	}
}

func show(r request) string {
	return fmt.Sprintf("%s %.300s %v\n%.500q", r.method, r.path, r.header, r.body)
}

// fuzzer draws one request of an operation.
type fuzzer struct {
	*rand.Rand

	w         *fixture
	o         openapi.Operation
	elsewhere bool // the path may lead to another operation, or to none
}

func pick[T any](f *fuzzer, from []T) T { return from[f.IntN(len(from))] }

func (f *fuzzer) chance(percent int) bool { return f.IntN(100) < percent }

func (f *fuzzer) request() (request, *actor) {
	w := f.w
	by := w.a.owner
	if ofOperators(f.o) {
		by = w.admin
	} else if f.chance(20) {
		by = pick(f, w.actors)
	}
	c := cell{op: f.o, actor: by, at: own}
	ids := w.ids(c, writes(f.o) && f.chance(15) && by.rejection == "")
	r := w.build(f.o, by, ids)
	if takesJSON(f.o) {
		body, _ := json.Marshal(f.object(f.o.RequestBody.Value.Content["application/json"].Schema.Value, w.bodyOf(f.o)))
		r.body = body
	}
	r.path += f.query()
	for range f.IntN(4) {
		f.spoil(&r, ids)
	}
	return r, by
}

// object adds fields that may be there to those that must.
func (f *fuzzer) object(s *openapi3.Schema, made map[string]any) map[string]any {
	for _, name := range sorted(s.Properties) {
		if made[name] == nil && f.chance(40) {
			made[name] = f.value(s.Properties[name].Value)
		}
	}
	return made
}

// value returns a value that the schema allows, often at its bounds.
func (f *fuzzer) value(s *openapi3.Schema) any {
	switch {
	case len(s.Enum) > 0:
		return pick(f, s.Enum)
	case s.Type.Is("boolean"):
		return f.chance(50)
	case s.Type.Is("integer"):
		least, most := 0.0, 1e6
		if s.Min != nil {
			least = *s.Min
		}
		if s.Max != nil {
			most = *s.Max
		}
		return pick(f, []any{int64(least), int64(most), int64(least) + int64(f.IntN(10))})
	case s.Type.Is("array"):
		list := []any{}
		for range f.IntN(3) {
			list = append(list, f.value(s.Items.Value))
		}
		return list
	case s.Type.Is("object"):
		return map[string]any{"a": "b"}
	case s.Format == "uuid":
		return pick(f, []string{id().String(), "00000000-0000-0000-0000-000000000000", strings.ToUpper(id().String())})
	case s.Format == "date-time":
		return pick(f, []string{"2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"})
	}
	return f.text(s)
}

func (f *fuzzer) text(s *openapi3.Schema) string {
	if s.Pattern != "" {
		return pick(f, []string{"a", "EUR", "abc-1", "a-" + fmt.Sprint(f.IntN(1e6))})
	}
	most := 63
	if s.MaxLength != nil {
		most = int(min(*s.MaxLength, 2000))
	}
	return pick(f, []string{"x", "ab", "a b", strings.Repeat("y", most), strings.Repeat("ü", most), "w-" + fmt.Sprint(f.IntN(1e6))})
}

// nasty are texts that break what does not expect them.
var nasty = []string{
	"", " ", "\x00", "a\x00b", "\ufffd", "\xff\xfe", "\u202eabc\u202c", "مرحبا", "𝒳👩‍👩‍👧", "e\u0301", "\u200b", "\r\n", "\t",
	"' OR '1'='1", "'; DROP TABLE users; --", "1; SELECT pg_sleep(5)", "%' OR 1=1 --", "\\", "\\x00", "$1", "{{7*7}}", "${jndi:ldap://x}", "../../etc/passwd",
	"<script>alert(1)</script>", "null", "undefined", "NaN", "-1", "0", "1e400", "99999999999999999999", "0x10", "true", "[]", "{}", "%00", "%2e%2e%2f", "%", "%zz",
	"00000000-0000-0000-0000-000000000000", "{00000000-0000-0000-0000-000000000000}", "urn:uuid:00000000-0000-0000-0000-000000000000", "default", "*", "W/\"1\"", "\"1\"",
	"2026-13-45T99:99:99Z", "2026-01-01", "infinity", "-infinity", "now", "0000-00-00T00:00:00Z", "eyJhbGciOiJub25lIn0.e30.",
}

func (f *fuzzer) nasty() string {
	if f.chance(8) {
		return strings.Repeat(pick(f, []string{"A", "é", "%41", "\\u0000"}), 1+f.IntN(5000))
	}
	return pick(f, nasty)
}

// query is some of the known parameters with values that are allowed.
func (f *fuzzer) query() string {
	q := url.Values{}
	for _, p := range f.o.Parameters {
		if p.Value.In == openapi3.ParameterInQuery && p.Value.Name != "cursor" && f.chance(40) {
			q.Set(p.Value.Name, fmt.Sprint(f.value(p.Value.Schema.Value)))
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// spoil makes one part of a request invalid.
func (f *fuzzer) spoil(r *request, ids map[slot]string) {
	switch f.IntN(6) {
	case 0:
		f.spoilPath(r, ids)
	case 1:
		name := pick(f, []string{"limit", "cursor", "q", "tenant", "from", "to", "since", "scope", "status", "x", "token", "user_id", "actor", "limit[]"})
		joint := "?"
		if strings.Contains(r.path, "?") {
			joint = "&"
		}
		r.path += joint + url.QueryEscape(name) + "=" + pick(f, []string{url.QueryEscape(f.nasty()), "%zz", ""})
	case 2, 3:
		f.spoilHeader(r)
	default:
		f.spoilBody(r)
	}
}

func (f *fuzzer) spoilPath(r *request, ids map[slot]string) {
	for s, value := range ids {
		if s.in == "path" && f.chance(60) {
			f.elsewhere = true
			with := url.PathEscape(f.nasty())
			if with == "" || with == "." || with == ".." {
				with = "%20"
			}
			r.path = strings.Replace(r.path, "/"+value, "/"+with, 1)
		}
	}
}

func (f *fuzzer) spoilHeader(r *request) {
	name := pick(f, []string{
		"X-Project-ID", "If-Match", "If-None-Match", "X-Idempotency-Key", "Idempotency-Key", "Accept", "Content-Type", "Content-Encoding",
		"Last-Event-ID", "X-Correlation-ID", "Traceparent", "Authorization", "Cookie", "Origin", "X-Forwarded-For", "Range", "Accept-Language",
	})
	// Line ends and the like never leave a client library.
	value := strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '~'
		}
		return c
	}, f.nasty())
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, value)
	if f.chance(10) {
		r.header.Add(name, "twice")
	}
}

func (f *fuzzer) spoilBody(r *request) {
	var object map[string]any
	if json.Unmarshal(r.body, &object) != nil || len(object) == 0 || f.chance(25) {
		r.body = []byte(pick(f, []string{
			"{", "[]", "null", `""`, "1", `{"a":1}{"b":2}`, `{"name":"x","name":"y"}`, strings.Repeat("[", 2000), `{"name":"\ud800"}`, "\xff\xfe{}", "{\"name\":\"\x01\"}",
			`{"":""}`, `{"__proto__":{"admin":true}}`, string(r.body) + "x", strings.Repeat(" ", 3000) + "{}", `{"name":1e999}`, `{"gpus":1.0000000000000001}`, "",
		}))
		return
	}
	name := pick(f, sorted(object))
	switch f.IntN(5) {
	case 0:
		delete(object, name)
	case 1:
		object[pick(f, hidden)] = pick(f, []any{true, "admin", 1, nil, []any{}, map[string]any{}})
	case 2:
		object[name] = pick(f, []any{nil, true, -1, 1.5, 1e300, []any{}, []any{nil}, map[string]any{}, map[string]any{"a": []any{}}})
	default:
		object[name] = f.nasty()
	}
	r.body, _ = json.Marshal(object)
}

// hidden are fields of rows that no client may set.
var hidden = []string{
	"id", "org_id", "tenant_id", "project_id", "user_id", "role", "is_admin", "admin", "version", "created_at", "secret_hash", "status", "price_minor", "disabled_at",
	"oidc_subject", "issuer", "revoked_at", "tenant_role", "balance", "host_uid",
}
