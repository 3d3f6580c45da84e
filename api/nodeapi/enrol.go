package nodeapi

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	// issueWithin limits a request to a remote certificate authority. It is shorter than the
	// reservation of a token and than the timeout of the agent.
	issueWithin = 10 * time.Second
	// renewOver spreads the renewals of all nodes after a key rollover: 10,000 nodes cause about 80
	// renewals a second.
	renewOver = 2 * time.Minute
	// understandsRenew is the first capability of an agent that supports ReportReply.Renew.
	understandsRenew = 2
)

// enrol exchanges a token for a certificate. It validates the request before it uses the token, so
// that an invalid request does not use the token up.
func (s *Server) enrol(w http.ResponseWriter, r *http.Request, _ caller) error {
	var body protocol.EnrolRequest
	if err := decode(w, r, maxRequest, &body); err != nil {
		return err
	}
	switch {
	case body.Capability < 1:
		return errs.Invalid("capability", "this build of the agent is unknown")
	case body.Token == "":
		return errs.New(errs.EnrolmentTokenInvalid, "the enrolment token is unknown, used or expired")
	case len(body.Hostname) > maxHostname:
		return errs.Invalid("hostname", "longer than %d bytes", maxHostname)
	case len(body.ProofKey) != 0 && len(body.ProofKey) != ed25519.PublicKeySize:
		return errs.Invalid("proof_key", "is not an Ed25519 public key")
	}
	if _, err := pki.ParseRequest([]byte(body.CSR)); err != nil {
		return errs.Invalid("csr", "%v", err)
	}
	made, issue := s.issue(body.CSR)
	a, err := s.Nodes.Enrol(r.Context(), Enrolment{Token: body.Token, ProofKey: body.ProofKey}, issue)
	if err != nil {
		s.disown(r.Context(), *made)
		return err
	}
	s.disown(r.Context(), a.Ended)
	s.Log.InfoContext(r.Context(), "node enrolled", "node", a.Node, "hostname", body.Hostname, "serial", a.Grant.Certificate.Serial, "ended", len(a.Ended))
	s.write(w, r, http.StatusOK, s.identity(a.Node, a.Grant))
	return nil
}

// renew issues the next certificate of a node.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, who caller) error {
	var body protocol.RenewRequest
	if err := decode(w, r, maxRequest, &body); err != nil {
		return err
	}
	request, err := pki.ParseRequest([]byte(body.CSR))
	if err != nil {
		return errs.Invalid("csr", "%v", err)
	}
	if same, ok := request.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && same.Equal(r.TLS.PeerCertificates[0].PublicKey) {
		return errs.Invalid("csr", "a renewal needs a new key")
	}
	made, issue := s.issue(body.CSR)
	grant, err := s.Nodes.Renew(r.Context(), who.Node, who.Serial, issue)
	if err != nil {
		s.disown(r.Context(), *made)
		return err
	}
	s.write(w, r, http.StatusOK, s.identity(who.Node, grant))
	return nil
}

// issue returns a function that issues a certificate for the node that the use case has found. The
// function adds each issued serial to made, so that the caller can revoke it after a failure.
func (s *Server) issue(csr string) (made *[]string, issue Issue) {
	made = &[]string{}
	life := pki.MaxTTL
	if s.CertificateFor != nil {
		life = min(life, s.CertificateFor())
	}
	return made, func(ctx context.Context, node ids.Node) (g Grant, err error) {
		ctx, cancel := context.WithTimeout(ctx, issueWithin)
		defer cancel()
		name := pki.Name{Domain: s.TrustDomain, Kind: "node", ID: node.String()}
		if g.Certificate, err = s.CA.Issue(ctx, []byte(csr), name.URI(), life); err != nil {
			return g, err
		}
		*made = append(*made, g.Certificate.Serial)
		g.Trust = s.trustState()
		return g, nil
	}
}

// disown revokes serials at the certificate authority. The node API checks its own database
// instead, so nothing depends on this call, and a failure is only logged.
func (s *Server) disown(ctx context.Context, serials []string) {
	if len(serials) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), issueWithin)
	defer cancel()
	for _, serial := range serials {
		if err := s.CA.Revoke(ctx, serial); err != nil {
			s.Log.WarnContext(ctx, "certificate authority not notified of a revocation", "serial", serial, "err", err)
		}
	}
}

func (s *Server) identity(node ids.Node, g Grant) protocol.EnrolReply {
	return protocol.EnrolReply{
		Node: node, Certificate: string(g.Certificate.Chain), NotAfter: g.Certificate.NotAfter, Trust: g.Trust, ReportEvery: s.period(node),
	}
}

func (s *Server) trust(w http.ResponseWriter, r *http.Request, _ caller) error {
	s.write(w, r, http.StatusOK, s.trustState())
	return nil
}

// trustState returns the current trust state.
func (s *Server) trustState() protocol.Trust {
	set, sets := s.Trusted.Control()
	_, releases := s.Trusted.Releases()
	return protocol.Trust{CAs: string(s.CA.Bundle()), TaskKeys: set.TaskKeys, StatementKeys: set.StatementKeys, RelayKeys: set.RelayKeys, Sets: sets, Releases: releases}
}

// recall schedules the renewals of nodes whose trust state is out of date. It spreads them over
// renewOver, so that the nodes do not all renew at once.
type recall struct {
	mu    sync.Mutex
	stamp string
	since time.Time
}

func (c *recall) turn(stamp string, node ids.Node, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stamp != stamp {
		c.stamp, c.since = stamp, now
	}
	h := fnv.New32a()
	_, _ = h.Write(node.UUID[:]) // never fails
	// In milliseconds: the product with nanoseconds exceeds 63 bits, and half of the nodes renewed at once.
	share := time.Duration(int64(h.Sum32())*renewOver.Milliseconds()>>32) * time.Millisecond
	return now.Sub(c.since) >= share
}

// shouldRenew reports whether a node that has just reported should renew its certificate now: its trust
// state is out of date, or its certificate is of an authority that a rotation removes.
func (s *Server) shouldRenew(who caller, has secret.InForce, capability int) bool {
	if capability < understandsRenew {
		return false // an older agent renews only at half of the lifetime
	}
	set, _ := s.Trusted.Control()
	now, issuer := secret.Stamp(s.CA.Bundle(), set.TaskKeys, set.StatementKeys, set.RelayKeys), s.CA.Issuer()
	follows := has.Trust == now && (issuer == "" || has.Issuer == issuer)
	return !follows && s.recall.turn(now, who.Node, s.Clock.Now())
}
