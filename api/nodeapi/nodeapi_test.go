package nodeapi_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// endpoint is a call about one node, with a body that is right.
type endpoint struct {
	method, path string
	body         any
	status       int
}

func endpoints(t *testing.T, node ids.Node) map[string]endpoint {
	t.Helper()
	task := ids.New[ids.Task]()
	return map[string]endpoint{
		"renew":    {"POST", fmt.Sprintf(protocol.PathRenew, node), protocol.RenewRequest{CSR: csrFor(t, newKey(t))}, 200},
		"wait":     {"GET", fmt.Sprintf(protocol.PathWait, node), nil, 200},
		"result":   {"POST", fmt.Sprintf(protocol.PathResult, node, task), protocol.Result{Task: task}, 204},
		"progress": {"POST", fmt.Sprintf(protocol.PathStep, node, task), protocol.Progress{}, 204},
		"report":   {"PUT", fmt.Sprintf(protocol.PathReport, node), protocol.Report{}, 200},
	}
}

func (b *bundle) put(node ids.Node, task protocol.Signed) {
	b.mu.Lock()
	b.mail[node] = append(b.mail[node], task)
	b.mu.Unlock()
}

// INV-41: two certificates × every endpoint. Each speaks for itself only.
func TestINV41NodeAIsNotNodeB(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a, z, nobody := b.enrolled(t), b.enrolled(t), b.stranger(t)
	for name, e := range endpoints(t, a.node) {
		b.put(a.node, protocol.Signed{Body: []byte("secret of A")})
		if status, code := z.call(e.method, e.path, e.body, nil); status != http.StatusForbidden || code != string(errs.NodeIdentityMismatch) {
			t.Errorf("%s: B as A: %d %s", name, status, code)
		}
		if status, code := nobody.call(e.method, e.path, e.body, nil); status != http.StatusUnauthorized || code != string(errs.CertificateRequired) {
			t.Errorf("%s: a stranger as A: %d %s", name, status, code)
		}
		if status, code := a.call(e.method, e.path, e.body, nil); status != e.status {
			t.Errorf("%s: A as A: %d %s", name, status, code)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.results) != 1 || len(b.steps) != 1 || len(b.reports) != 1 {
		t.Errorf("%d results, %d steps, %d reports", len(b.results), len(b.steps), len(b.reports))
	}
}

func TestStrangersLearnNothing(t *testing.T) {
	t.Parallel()

	b := setup(t)
	nobody, a := b.stranger(t), b.enrolled(t)
	for _, path := range []string{protocol.PathTrust, "/", "/metrics", "/internal/v1/nodes/x/y", "/internal/v1/nodes/" + a.node.String() + "/tasks/wait"} {
		if status, code := nobody.send("GET", path, nil, nil); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, status, code)
		}
	}
	if status, _ := a.send("GET", "/metrics", nil, nil); status != http.StatusNotFound {
		t.Errorf("unknown path: %d", status)
	}
	if status, _ := a.send("DELETE", protocol.PathTrust, nil, nil); status != http.StatusNotFound {
		t.Errorf("unknown method: %d", status)
	}
	var trust protocol.Trust
	if status, _ := a.send("GET", protocol.PathTrust, nil, &trust); status != http.StatusOK || trust.CAs != string(b.ca.Bundle()) || len(trust.TaskKeys) != 1 {
		t.Errorf("trust: %d %+v", status, trust)
	}
}

// A certificate of our authority that names something other than a node.
func TestACertificateOfAnotherKindIsNoNode(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, uri := range []string{"spiffe://elsewhere/node/" + ids.New[ids.Node]().String(), "spiffe://" + domain + "/user/1", "spiffe://" + domain + "/node/UPPER"} {
		key := newKey(t)
		made, err := b.ca.Issue(t.Context(), []byte(csrFor(t, key)), mustURL(t, uri), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		p := b.peer(t, ids.Node{}, certificate(t, protocol.EnrolReply{Certificate: string(made.Chain)}, key))
		if status, code := p.send("GET", protocol.PathTrust, nil, nil); status != http.StatusForbidden || code != string(errs.NodeIdentityMismatch) {
			t.Errorf("%s: %d %s", uri, status, code)
		}
	}
}

// INV-39: 200 at once with one token make one certificate.
func TestINV39ATokenWorksOnce(t *testing.T) {
	t.Parallel()

	b := setup(t)
	node := ids.New[ids.Node]()
	b.tokens["gpe_once"] = node
	csr, nobody := csrFor(t, newKey(t)), b.stranger(t)
	body, err := json.Marshal(protocol.EnrolRequest{Token: "gpe_once", CSR: csr, Capability: 1})
	if err != nil {
		t.Fatal(err)
	}
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			switch status, code := nobody.send("POST", protocol.PathEnrol, body, nil); {
			case status == http.StatusOK:
				won.Add(1)
			case status == http.StatusUnauthorized && code == string(errs.EnrolmentTokenInvalid):
				lost.Add(1)
			default:
				t.Errorf("%d %s", status, code)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 199 || len(b.valid) != 1 {
		t.Errorf("%d certificates, %d refusals", won.Load(), lost.Load())
	}
}

func TestABadRequestDoesNotCostTheToken(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.tokens["gpe_kept"] = ids.New[ids.Node]()
	nobody, csr := b.stranger(t), csrFor(t, newKey(t))
	good := protocol.EnrolRequest{Token: "gpe_kept", CSR: csr, Capability: 1}
	for rule, change := range map[string]func(*protocol.EnrolRequest){
		"no request":     func(r *protocol.EnrolRequest) { r.CSR = "" },
		"forged":         func(r *protocol.EnrolRequest) { r.CSR = strings.Replace(r.CSR, "A", "B", 1) },
		"no capability":  func(r *protocol.EnrolRequest) { r.Capability = 0 },
		"long host name": func(r *protocol.EnrolRequest) { r.Hostname = strings.Repeat("x", 300) },
	} {
		bad := good
		change(&bad)
		if status, code := nobody.call("POST", protocol.PathEnrol, bad, nil); status != http.StatusBadRequest || code != string(errs.ValidationError) {
			t.Errorf("%s: %d %s", rule, status, code)
		}
	}
	if status, code := nobody.call("POST", protocol.PathEnrol, good, nil); status != http.StatusOK {
		t.Errorf("the token is gone: %d %s", status, code)
	}
}

func TestBodiesAreStrict(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a := b.enrolled(t)
	report, task := fmt.Sprintf(protocol.PathReport, a.node), ids.New[ids.Task]()
	for rule, c := range map[string]struct {
		method, path, body string
		code               errs.Code
	}{
		"unknown field":   {"PUT", report, `{"hello":1}`, errs.ValidationError},
		"not JSON":        {"PUT", report, `hello`, errs.ValidationError},
		"empty":           {"PUT", report, ``, errs.ValidationError},
		"two values":      {"PUT", report, `{} {}`, errs.ValidationError},
		"wrong type":      {"PUT", report, `{"sequence":"one"}`, errs.ValidationError},
		"too large":       {"PUT", report, `{"agent":"` + strings.Repeat("x", 1<<20) + `"}`, errs.BodyTooLarge},
		"query":           {"PUT", report + "?force=1", `{}`, errs.UnknownParameter},
		"query of a poll": {"GET", fmt.Sprintf(protocol.PathWait, a.node) + "?x", ``, errs.UnknownParameter},
		"another task":    {"POST", fmt.Sprintf(protocol.PathResult, a.node, task), `{"task_id":"` + ids.New[ids.Task]().String() + `"}`, errs.ValidationError},
		"no task":         {"POST", "/internal/v1/nodes/" + a.node.String() + "/tasks/1/result", `{}`, errs.NotFound},
	} {
		if _, code := a.send(c.method, c.path, []byte(c.body), nil); code != string(c.code) {
			t.Errorf("%s: %s", rule, code)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, b.url+report, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := a.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("no content type: %d", response.StatusCode)
	}
	if len(b.reports) != 0 {
		t.Errorf("%d reports came through", len(b.reports))
	}
}

func TestErrorsOfServicesReachTheNode(t *testing.T) {
	t.Parallel()

	for err, status := range map[error]int{
		errs.New(errs.TaskSuperseded, "a newer task overtook it"): http.StatusConflict,
		errs.New(errs.StaleReport, "older than the last"):         http.StatusConflict,
		fmt.Errorf("no connection to the database at 10.0.0.1"):   http.StatusInternalServerError,
		errs.New(errs.SKUUnknown, "not a code of the node API"):   http.StatusInternalServerError,
	} {
		b := setup(t)
		b.failure = err
		a := b.enrolled(t)
		var problem bytes.Buffer
		got, code := a.call("PUT", fmt.Sprintf(protocol.PathReport, a.node), protocol.Report{}, nil)
		if got != status || (status == http.StatusInternalServerError) != (code == string(errs.Internal)) {
			t.Errorf("%v: %d %s %s", err, got, code, &problem)
		}
	}
}

func TestRenewalNeedsANewKey(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a := b.enrolled(t)
	path := fmt.Sprintf(protocol.PathRenew, a.node)
	if status, code := a.call("POST", path, protocol.RenewRequest{CSR: csrFor(t, a.key)}, nil); status != http.StatusBadRequest {
		t.Errorf("same key: %d %s", status, code)
	}
	key := newKey(t)
	var reply protocol.EnrolReply
	if status, code := a.call("POST", path, protocol.RenewRequest{CSR: csrFor(t, key)}, &reply); status != http.StatusOK || reply.Node != a.node {
		t.Fatalf("%d %s", status, code)
	}
	next := b.peer(t, a.node, certificate(t, reply, key))
	if status, _ := next.send("GET", protocol.PathTrust, nil, nil); status != http.StatusOK {
		t.Errorf("renewed certificate: %d", status)
	}
}

type polled struct {
	status int
	code   string
	task   protocol.Signed
	err    error
}

// waiting starts a poll and returns when it waits.
func (b *bundle) waiting(t testing.TB, p *peer) <-chan polled {
	t.Helper()
	got := make(chan polled, 1)
	go func() {
		var r polled
		r.status, r.code, r.err = p.try("GET", fmt.Sprintf(protocol.PathWait, p.node), nil, &r.task)
		got <- r
	}()
	select {
	case <-b.polled:
	case <-time.After(10 * time.Second):
		t.Fatal("the poll did not read the mailbox")
	}
	return got
}

func receive(t *testing.T, c <-chan polled, within time.Duration) polled {
	t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(within):
		t.Fatal("the poll is still open")
		return polled{}
	}
}

func TestAHintWakesThePoll(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a := b.enrolled(t)
	got := b.waiting(t, a)
	b.put(a.node, protocol.Signed{Body: []byte("task")})
	b.hints.Send(nodeapi.Topic(a.node)) // the next check without it is an hour away
	if r := receive(t, got, 2*time.Second); r.status != http.StatusOK || string(r.task.Body) != "task" {
		t.Errorf("%+v", r)
	}
}

// INV-40: a revoked certificate's poll ends within two seconds, without a hint,
// and a task that is queued then does not reach it.
func TestINV40RevokedMeansNow(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a := b.enrolled(t)
	revoke := func() {
		b.mu.Lock()
		clear(b.valid)
		b.mu.Unlock()
	}
	got := b.waiting(t, a)
	revoke()
	if r := receive(t, got, 2*time.Second); r.status != http.StatusForbidden || r.code != string(errs.CertificateRevoked) {
		t.Errorf("%+v", r)
	}
	if status, code := a.send("GET", protocol.PathTrust, nil, nil); status != http.StatusForbidden {
		t.Errorf("the same connection: %d %s", status, code)
	}

	z := b.enrolled(t)
	got = b.waiting(t, z)
	revoke()
	b.put(z.node, protocol.Signed{Body: []byte("task")})
	b.hints.Send(nodeapi.Topic(z.node))
	if r := receive(t, got, 2*time.Second); r.status != http.StatusForbidden || len(r.task.Body) > 0 {
		t.Errorf("a task reached a revoked node: %+v", r)
	}
	if len(b.mail[z.node]) != 1 {
		t.Error("the task was removed from the mailbox")
	}
}

func TestShutdownEndsPollsPolitely(t *testing.T) {
	t.Parallel()

	b := setup(t)
	got := b.waiting(t, b.enrolled(t))
	b.stop()
	if r := receive(t, got, 3*time.Second); r.status != http.StatusNoContent {
		t.Errorf("%+v", r)
	}
}

func TestOnlyTLS13AndHTTP1(t *testing.T) {
	t.Parallel()

	b := setup(t)
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
	if c, err := tls.Dial("tcp", strings.TrimPrefix(b.url, "https://"), old); err == nil {
		c.Close()
		t.Error("spoke TLS 1.2")
	}
	c, err := tls.Dial("tcp", strings.TrimPrefix(b.url, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if p := c.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
		t.Errorf("spoke %q", p)
	}
	plain, err := net.Dial("tcp", strings.TrimPrefix(b.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	plain.Close()
}

// PostgreSQL stores no U+0000. If the statement failed, an invalid byte from a node would be reported as
// an internal error.
func TestTextThatNoTableStoresIsRejected(t *testing.T) {
	t.Parallel()

	b := setup(t)
	a := b.enrolled(t)
	status, code := a.call("PUT", fmt.Sprintf(protocol.PathReport, a.node), protocol.Report{BootID: "\x00"}, nil)
	if status != http.StatusBadRequest || code != string(errs.ValidationError) {
		t.Errorf("%d %s", status, code)
	}
}
