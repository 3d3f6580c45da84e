package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

var errNotResumed = errors.New("the session was not resumed")

// Connect dials and performs the TLS handshake. config names the server and caches sessions.
//
// With a cached session, the key exchange is X25519 alone, which costs a third. The secret of the
// session, which came from a hybrid exchange that is safe against a quantum computer, is mixed in.
// If the server no longer knows the session, Connect dials again with the hybrid exchange.
func Connect(ctx context.Context, dial func(context.Context) (net.Conn, error), config *tls.Config) (*tls.Conn, error) {
	if _, known := session(config); known {
		c, err := shake(ctx, dial, resuming(config))
		if !errors.Is(err, errNotResumed) {
			return c, err
		}
	}
	return shake(ctx, dial, config)
}

func session(config *tls.Config) (*tls.ClientSessionState, bool) {
	if config.ClientSessionCache == nil {
		return nil, false
	}
	return config.ClientSessionCache.Get(config.ServerName)
}

func resuming(config *tls.Config) *tls.Config {
	quick, verify := config.Clone(), config.VerifyConnection
	quick.CurvePreferences = []tls.CurveID{tls.X25519}
	quick.VerifyConnection = func(s tls.ConnectionState) error {
		if !s.DidResume {
			return errNotResumed
		}
		if verify != nil {
			return verify(s)
		}
		return nil
	}
	return quick
}

func shake(ctx context.Context, dial func(context.Context) (net.Conn, error), config *tls.Config) (*tls.Conn, error) {
	raw, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return c, nil
}
