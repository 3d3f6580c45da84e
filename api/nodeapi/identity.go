package nodeapi

import (
	"net/http"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// caller identifies a node by the certificate that TLS has verified.
type caller struct {
	Node   ids.Node
	Serial string
}

type handler func(w http.ResponseWriter, r *http.Request, who caller) error

// open serves requests without a certificate: the first enrolment, and the download of the agent.
func (s *Server) open(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, caller{}, func() error { return h(w, r, caller{}) })
	})
}

// identified serves nodes with a certificate in force, and only requests about themselves.
func (s *Server) identified(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.identify(r)
		s.answer(w, r, who, func() error {
			if err != nil {
				return err
			}
			return h(w, r, who)
		})
	})
}

func (s *Server) identify(r *http.Request) (caller, error) {
	// PeerCertificates would be wrong here: it also contains certificates that the peer sent and
	// TLS did not verify.
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return caller{}, errs.New(errs.CertificateRequired, "this call needs a node's certificate")
	}
	leaf := r.TLS.VerifiedChains[0][0]
	if !s.Clock.Now().Before(leaf.NotAfter) { // TLS checks this only at the handshake; the connection may last longer
		return caller{}, errs.New(errs.CertificateRequired, "the certificate has expired")
	}
	name, err := pki.NameOf(leaf)
	if err != nil || name.Domain != s.TrustDomain || name.Kind != "node" {
		return caller{}, errs.New(errs.NodeIdentityMismatch, "the certificate is not that of a node").Because(err)
	}
	node, err := ids.Parse[ids.Node](name.ID)
	if err != nil || node.String() != name.ID {
		return caller{}, errs.New(errs.NodeIdentityMismatch, "the certificate is not that of a node").Because(err)
	}
	who := caller{node, pki.SerialOf(leaf)}
	if path := r.PathValue("node"); path != "" && path != who.Node.String() {
		return who, errs.New(errs.NodeIdentityMismatch, "the path names another node than the certificate")
	}
	return who, s.Nodes.Check(r.Context(), who.Node, who.Serial)
}
