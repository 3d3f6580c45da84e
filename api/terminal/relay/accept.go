package relay

import (
	"net/http"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/protocol"
)

// caller is a node with the serial of its certificate.
type caller struct {
	node   ids.Node
	serial string
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /internal/v1/nodes/{node}/relay", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // one connection per stream
		if err := s.accept(w, r); err != nil {
			s.reject(w, r, err)
		}
	})
	mux.HandleFunc("GET /ws/terminal/{allocation}", s.servePeer)
	if s.Internal != nil {
		mux.Handle("/internal/v1/logs", s.Internal)
	}
	return telemetry.Traced("gpuaas/relay", mux)
}

// accept gives the connection of an agent to the Dial that waits for its stream. A stream that is unknown, was opened before
// or is for another node does not exist.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) error {
	from, err := s.identify(r)
	if err != nil {
		return err
	}
	reason := r.Header.Get(protocol.RelayReasonHeader)
	if r.Header.Get("Upgrade") != protocol.RelayUpgrade || len(reason) > protocol.MaxRelayReason || r.ContentLength != 0 {
		return errs.New(errs.BadRequest, "the request opens no stream")
	}
	stream, err := ids.Parse[ids.Task](r.Header.Get(protocol.RelayStreamHeader))
	p := s.remove(stream, from.node)
	switch {
	case err != nil || p == nil:
		return errs.New(errs.NotFound, "no such stream of node %s is expected", from.node)
	case reason != "":
		s.Log.InfoContext(r.Context(), "stream rejected by the node", "node", from.node, "stream", stream, "reason", reason)
		p.result <- result{err: errs.New(errs.Unavailable, "the node rejects the connection: %s", reason)}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	c, err := s.hijack(w, from, p.kind)
	if err != nil {
		err = errs.New(errs.Unavailable, "the connection of the node ended while it was opened").Try("try again").Because(err)
	}
	p.result <- result{c, err}
	return nil // the connection is no longer one of HTTP
}

// identify returns the node of the certificate that TLS has verified, if it is in force and the path names the node.
// PeerCertificates would be wrong here: it also contains certificates that the peer sent and TLS did not verify.
func (s *Server) identify(r *http.Request) (caller, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return caller{}, errs.New(errs.Forbidden, "a stream needs the certificate of a node")
	}
	leaf := r.TLS.VerifiedChains[0][0]
	name, err := pki.NameOf(leaf)
	if err != nil || name.Domain != s.TrustDomain || name.Kind != "node" || !s.Clock.Now().Before(leaf.NotAfter) {
		return caller{}, errs.New(errs.Forbidden, "the certificate is not that of a node, or has expired").Because(err)
	}
	node, err := ids.Parse[ids.Node](name.ID)
	if err != nil || node.String() != name.ID || r.PathValue("node") != name.ID {
		return caller{}, errs.New(errs.Forbidden, "the path names another node than the certificate").Because(err)
	}
	from := caller{node, pki.SerialOf(leaf)}
	fallen, err := s.Certificates.FallenOf(r.Context(), []string{from.serial})
	switch {
	case err != nil:
		return from, errs.New(errs.Unavailable, "the certificate could not be checked").Because(err)
	case len(fallen) > 0:
		return from, errs.New(errs.Forbidden, "the certificate is not in force")
	}
	return from, nil
}
