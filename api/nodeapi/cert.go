package nodeapi

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/pki"
)

// serverCert is the door's own certificate, made anew at half life and when what
// is to be believed has changed.
type serverCert struct {
	mu     sync.Mutex
	cert   *tls.Certificate
	bundle string
	making bool
	retry  time.Time
}

// certifyAgain is between two tries while an authority elsewhere is away: the one
// at hand is good for hours.
const certifyAgain = 10 * time.Second

// get returns what there is. No handshake waits for the next one while the last
// is good: an authority elsewhere may be slow.
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

// first needs c.mu.
func (c *serverCert) first(ctx context.Context, s *Server) (*tls.Certificate, error) {
	c.bundle = string(s.CA.Bundle())
	ctx, cancel := context.WithTimeout(ctx, issueWithin)
	defer cancel()
	made, err := s.CA.Server(ctx, s.Hosts, pki.MaxTTL)
	return &made, err
}
