package nodeapi

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/pki"
)

// serverCert caches the server certificate of the node API. It is replaced at half of its lifetime,
// and when the CA bundle has changed.
type serverCert struct {
	mu     sync.Mutex
	cert   *tls.Certificate
	bundle string
	making bool
	retry  time.Time
}

// certifyAgain is the delay between two attempts while the certificate authority is unavailable.
// The current certificate is valid for hours.
const certifyAgain = 10 * time.Second

// get returns the current certificate. A replacement is created in the background while the current
// certificate is valid, because the certificate authority may be slow and no handshake should wait
// for it.
func (c *serverCert) get(ctx context.Context, s *Server) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := s.Clock.Now()
	if c.cert == nil || !now.Before(c.cert.Leaf.NotAfter) {
		made, err := c.first(ctx, s)
		if err != nil {
			return nil, err
		}
		c.cert = made
		return c.cert, nil
	}
	stale := c.bundle != string(s.CA.Bundle()) || !now.Before(c.cert.Leaf.NotAfter.Add(-pki.MaxTTL/2))
	if stale && !c.making && !now.Before(c.retry) {
		c.making, c.retry = true, now.Add(certifyAgain)
		go c.replace(ctx, s)
	}
	return c.cert, nil
}

func (c *serverCert) replace(ctx context.Context, s *Server) {
	bundle := string(s.CA.Bundle())
	ctx, cancel := context.WithTimeout(ctx, issueWithin)
	defer cancel()
	made, err := s.CA.Server(ctx, s.Hosts, pki.MaxTTL)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.making = false
	if err != nil {
		s.Log.WarnContext(ctx, "node API certificate not renewed", "err", err)
		return
	}
	c.cert, c.bundle, c.retry = &made, bundle, time.Time{}
}

// first creates the certificate while its caller waits. The caller has locked c.mu.
func (c *serverCert) first(ctx context.Context, s *Server) (*tls.Certificate, error) {
	c.bundle = string(s.CA.Bundle())
	ctx, cancel := context.WithTimeout(ctx, issueWithin)
	defer cancel()
	made, err := s.CA.Server(ctx, s.Hosts, pki.MaxTTL)
	return &made, err
}
