package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/agent/client"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Enrolled is the identity of a node after Enrol.
type Enrolled struct {
	Node  ids.Node
	Until time.Time // of the certificate
	Fresh bool      // a token was spent
}

// Enrol enrols a node with two processes, as root, while neither runs. It uses a token only if the node
// is not enrolled or its certificate is not accepted any more. A second call changes nothing.
func Enrol(ctx context.Context, c Config) (e Enrolled, err error) {
	if err := c.check(); err != nil {
		return e, err
	}
	lock, err := lockStateDir(c.journalDir())
	if err != nil {
		return e, err
	}
	defer func() { _ = lock.Close() }() // which also unlocks
	n := newNode(c)
	n.proofKey = func() (ed25519.PublicKey, error) { return helper.PublicKey(c.journalDir()) }
	stands, err := n.isEnrolled(ctx)
	if err != nil {
		return e, err
	}
	if !stands {
		if err := n.enrol(ctx); err != nil {
			return e, err
		}
		belief, err := helper.FirstTrustState(c.journalDir(), n.id(), n.identity.Load().Trust)
		if err != nil {
			return e, err
		}
		if err := helper.BootstrapTrust(c.journalDir(), c.Anchor, belief, c.Clock.Now()); err != nil {
			return e, err
		}
	}
	identity := n.identity.Load()
	return Enrolled{Node: identity.Node, Until: identity.NotAfter(), Fresh: !stands}, nil
}

// isEnrolled reports whether the node is enrolled, has its journal, and is accepted by the control
// plane.
func (n *node) isEnrolled(ctx context.Context) (bool, error) {
	known, found, err := n.load()
	if err != nil || !found {
		return false, err
	}
	if !n.Clock.Now().Before(known.NotAfter()) {
		return false, nil
	}
	if hasState, err := helper.HasState(n.journalDir(), n.Anchor, known.Node, n.Clock.Now()); err != nil || !hasState {
		return false, err
	}
	if err := n.become(&known); err != nil {
		return false, err
	}
	defer n.client.Load().Release()
	_, err = n.client.Load().Trust(ctx)
	refused, ok := errors.AsType[*client.ProblemError](err)
	switch {
	case err == nil:
		return true, nil
	case ok && (refused.Status == http.StatusForbidden || refused.Status == http.StatusUnauthorized):
		return false, nil
	}
	return false, fmt.Errorf("checking the enrolment of this node: %w", err)
}
