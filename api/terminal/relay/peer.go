package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// peerName is the server name (SNI) that distinguishes the connections of other terminal servers from those of agents, before
// certificates are exchanged.
const peerName = "terminal-server.gpuaas.internal"

// peerWithin limits the connection to another terminal server and its response.
const peerWithin = 5 * time.Second

var errOtherKey = errors.New("the key is not that of a running terminal server")

// Key returns the fingerprint of the key of this process. Other terminal servers read it in the database.
func (s *Server) Key() (string, error) {
	err := s.prepare()
	return s.key.fingerprint, err
}

// Peer returns a transport to the terminal server that has the given address and key. Each request opens a connection.
func (s *Server) Peer(address, key string) http.RoundTripper {
	config := pki.KeyTLS(key, s.Clock)
	config.ServerName, config.Certificates = peerName, []tls.Certificate{s.key.certificate}
	dial := tls.Dialer{Config: config}
	return &http.Transport{
		DisableKeepAlives: true, ResponseHeaderTimeout: peerWithin,
		DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, peerWithin)
			defer cancel()
			return dial.DialContext(ctx, network, address)
		},
	}
}

// withPeers accepts other terminal servers by the keys in the database.
func (s *Server) withPeers(agents *tls.Config) *tls.Config {
	all := agents.Clone()
	all.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName != peerName {
			return agents.GetConfigForClient(hello)
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{s.key.certificate},
			ClientAuth: tls.RequireAnyClientCert, Time: s.Clock.Now, SessionTicketsDisabled: true,
			VerifyConnection: func(c tls.ConnectionState) error {
				has, err := s.HasKey(hello.Context(), pki.KeyFingerprint(c.PeerCertificates[0]))
				if err == nil && !has {
					err = errOtherKey
				}
				return err
			},
		}, nil
	}
	return all
}

// servePeer serves a terminal to another terminal server, to which its client is connected.
func (s *Server) servePeer(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil || r.TLS.ServerName != peerName {
		s.reject(w, r, errs.New(errs.NotFound, "only another terminal server passes terminals on"))
		return
	}
	s.Terminals.ServeHTTP(w, r)
}
