package nodeapi

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/pki"
)

// serverCert is the door's own certificate, made anew at half life and when the
// authority is another.
type serverCert struct {
	mu     sync.Mutex
	cert   *tls.Certificate
	bundle string
	retry  time.Time
}

// certifyAgain is between two tries while an authority elsewhere is away: the one
// at hand is good for hours.
const certifyAgain = 10 * time.Second

func (c *serverCert) get(ctx context.Context, s *Server) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, bundle := s.Clock.Now(), string(s.CA.Bundle())
	if c.cert != nil && (now.Before(c.retry) || c.bundle == bundle && now.Before(c.cert.Leaf.NotAfter.Add(-pki.MaxTTL/2))) {
		return c.cert, nil
	}
	ctx, cancel := context.WithTimeout(ctx, issueWithin)
	defer cancel()
	made, err := s.CA.Server(ctx, s.Hosts, pki.MaxTTL)
	if err != nil {
		if c.cert == nil || !now.Before(c.cert.Leaf.NotAfter) {
			return nil, err
		}
		s.Log.WarnContext(ctx, "node door not certified anew", "err", err)
		c.retry = now.Add(certifyAgain)
		return c.cert, nil
	}
	c.cert, c.bundle = &made, bundle
	return c.cert, nil
}
