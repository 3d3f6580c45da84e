package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

var errNotResumed = errors.New("the session was not resumed")

// Connect dials and shakes hands. config names the server, and keeps sessions.
//
// Where a session is at hand, the exchange of keys is X25519 alone, which is a
// third of the work: what was agreed in the session, by a hybrid exchange that
// holds against a quantum computer, is mixed in. A server that does not know the
// session any more is dialled again, and meets the hybrid.
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
