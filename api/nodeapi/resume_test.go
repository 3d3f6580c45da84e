package nodeapi_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// resumable is a connection that leaves a ticket for the next one.
func (b *bundle) resumable(t *testing.T, config *tls.Config) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(b.url, "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// send sends one request and returns the answer; the ticket is part of it.
func send(t *testing.T, c *tls.Conn, path string) (status int, p protocol.Problem) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: node-api\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(text, &p) // of a rejection
	return r.StatusCode, p
}

// INV-40, INV-41: a resumed session is the node that opened it, as long as its
// certificate is in force and not a request longer.
func TestINV40ResumedSessions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, z := b.enrolled(t), b.enrolled(t)
	config := a.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName, config.ClientSessionCache = "127.0.0.1", tls.NewLRUClientSessionCache(1)

	if c := b.resumable(t, config); c.ConnectionState().DidResume {
		t.Error("resumed nothing")
	} else if status, _ := send(t, c, protocol.PathTrust); status != http.StatusOK {
		t.Error(status)
	}
	c := b.resumable(t, config)
	if !c.ConnectionState().DidResume {
		t.Fatal("not resumed: a storm is ten times the work")
	}
	if status, p := send(t, c, fmt.Sprintf(protocol.PathWait, z.node)); status != http.StatusForbidden || p.Code != string(errs.NodeIdentityMismatch) {
		t.Errorf("A as Z: %d %s", status, p.Code)
	}
	open := b.resumable(t, config)
	if status, _ := send(t, open, protocol.PathTrust); status != http.StatusOK || !open.ConnectionState().DidResume {
		t.Error(status)
	}
	b.mu.Lock()
	clear(b.valid)
	b.valid["of another"] = ids.New[ids.Node]()
	b.mu.Unlock()
	if status, p := send(t, open, protocol.PathTrust); status != http.StatusForbidden || p.Code != string(errs.CertificateRevoked) {
		t.Errorf("revoked, on an open connection: %d %s", status, p.Code)
	}
	c = b.resumable(t, config)
	if status, p := send(t, c, protocol.PathTrust); status != http.StatusForbidden || p.Code != string(errs.CertificateRevoked) {
		t.Errorf("revoked, resumed %v: %d %s", c.ConnectionState().DidResume, status, p.Code)
	}

	// A stranger's session is no node's.
	config.GetClientCertificate, config.ClientSessionCache = nil, tls.NewLRUClientSessionCache(1)
	send(t, b.resumable(t, config), protocol.PathTrust)
	c = b.resumable(t, config)
	if status, _ := send(t, c, protocol.PathTrust); status != http.StatusUnauthorized || !c.ConnectionState().DidResume {
		t.Errorf("a stranger, resumed %v: %d", c.ConnectionState().DidResume, status)
	}
}
