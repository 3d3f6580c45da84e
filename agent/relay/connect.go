package relay

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/protocol"
)

// maxHeader limits the response of a terminal server.
const maxHeader = 16 << 10

// upgraded is a connection to a terminal server after its response. reader contains bytes that came with the response.
type upgraded struct {
	*tls.Conn

	raw    net.Conn
	reader *bufio.Reader
}

// Read reads the bytes of the stream.
func (u *upgraded) Read(p []byte) (int, error) { return u.reader.Read(p) }

// connect calls the terminal server for a stream. With a reason it only sends the reason, and returns no connection.
func (r *Relay) connect(ctx context.Context, s helper.Stream) (*upgraded, error) {
	var raw net.Conn
	secured, err := pki.Connect(ctx, func(ctx context.Context) (conn net.Conn, err error) {
		raw, err = r.dial(ctx, openWithin, s.Address)
		return raw, err
	}, r.config(s.ServerKey))
	if err != nil {
		if raw != nil {
			r.close(raw)
		}
		return nil, fmt.Errorf("calling the terminal server: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { r.close(raw) })
	u := &upgraded{Conn: secured, raw: raw}
	err = r.upgrade(u, s)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil || s.Reason != "" {
		_ = secured.Close()
		r.close(raw)
		return nil, err
	}
	return u, nil
}

func (r *Relay) upgrade(u *upgraded, s helper.Stream) error {
	path := fmt.Sprintf(protocol.PathRelay, r.Identity().Node)
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Host: s.Address, Header: http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {protocol.RelayUpgrade}, protocol.RelayStreamHeader: {s.ID.String()}, "User-Agent": {""},
	}}
	want := http.StatusSwitchingProtocols
	if s.Reason != "" {
		want = http.StatusNoContent
		request.Header.Set(protocol.RelayReasonHeader, plain(s.Reason))
	}
	if err := request.Write(u.Conn); err != nil {
		return fmt.Errorf("calling the terminal server: %w", err)
	}
	limited := &io.LimitedReader{R: u.Conn, N: maxHeader}
	u.reader = bufio.NewReader(limited)
	response, err := http.ReadResponse(u.reader, request)
	if err != nil {
		return fmt.Errorf("reading the response of the terminal server: %w", err)
	}
	_ = response.Body.Close() // a 101 and a 204 have none
	if response.StatusCode != want {
		return fmt.Errorf("the terminal server responds with status %d", response.StatusCode)
	}
	limited.N = math.MaxInt64
	return nil
}

// plain returns a text that a header can contain.
func plain(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text)
	return text[:min(len(text), protocol.MaxRelayReason)]
}

// config authenticates this node by its present certificate, and the server by the key that the request names. Sessions are
// resumed until the certificate is renewed: the session contains the certificate.
func (r *Relay) config(serverKey string) *tls.Config {
	identity := r.Identity()
	r.mu.Lock()
	if r.resumes != identity {
		r.resumes, r.sessions = identity, tls.NewLRUClientSessionCache(8)
	}
	sessions := r.sessions
	r.mu.Unlock()
	c := pki.KeyTLS(serverKey, r.Clock)
	c.ClientSessionCache = sessions
	c.ServerName = serverKey[:32] // the key of the session; the server does not read it
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return identity.Pair(), nil }
	return c
}
