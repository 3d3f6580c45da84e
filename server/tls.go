package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// TLS configures the API listener. Without a certificate the API is served over plain HTTP, behind a
// proxy that ends TLS.
type TLS struct {
	Cert, Key string // paths of PEM files: the chain and its private key
	// ClientCA is the path of a PEM file. If it is set, only clients with a certificate of these
	// authorities can connect.
	ClientCA string
}

func (t TLS) check() error {
	switch {
	case t.Cert == "" && t.Key == "" && t.ClientCA == "":
		return nil
	case t.Cert == "" || t.Key == "":
		return errs.Invalid("--tls-cert", "TLS needs both a certificate and its key").Try("set --tls-cert and --tls-key")
	}
	return nil
}

// tlsEvery is the time within which the listener uses changed files.
const tlsEvery = 10 * time.Second

// tlsListener serves TLS with the files that were valid last.
type tlsListener struct {
	net.Listener

	files TLS
	now   atomic.Pointer[tls.Config]
}

// newTLSListener reads the files and wraps a listener. Malformed files are an error.
func newTLSListener(l net.Listener, files TLS) (*tlsListener, error) {
	t := &tlsListener{files: files}
	if err := t.reload(); err != nil {
		return nil, err
	}
	t.Listener = tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.now.Load(), nil },
	})
	return t, nil
}

// reload reads the files. With an error the previous certificate stays in use.
func (t *tlsListener) reload() error {
	certificate, err := tls.LoadX509KeyPair(t.files.Cert, t.files.Key)
	if err != nil {
		return errs.Invalid("--tls-cert", "%s and %s are no certificate with its key", t.files.Cert, t.files.Key).Because(err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}}
	if t.files.ClientCA != "" {
		text, err := os.ReadFile(t.files.ClientCA)
		cfg.ClientCAs = x509.NewCertPool()
		if err != nil || !cfg.ClientCAs.AppendCertsFromPEM(text) {
			return errs.Invalid("--tls-client-ca", "%s contains no certificate in PEM", t.files.ClientCA).Because(err)
		}
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	t.now.Store(cfg)
	return nil
}

// watchTLS reads the files again until ctx ends. Certificates are renewed by other programs, which
// do not signal this one.
func (s *Server) watchTLS(ctx context.Context, t *tlsListener) error {
	tick := time.NewTicker(tlsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := t.reload(); err != nil {
				s.cfg.Log.WarnContext(ctx, "the previous TLS certificate stays in use", "component", "server", "err", err)
			}
		}
	}
}
