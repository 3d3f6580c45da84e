package nodeapi

import (
	"crypto"
	"errors"
	"mime"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// Largest bodies. A report of 256 devices with their reasons is below 200 kB.
const (
	maxRequest  = 16 << 10 // certificate requests, progress
	maxResult   = 256 << 10
	maxReport   = 1 << 20
	maxHostname = 253
)

// enrol trades a token for a certificate. The request is checked before the token
// is touched, so that a bad one does not cost it.
func (s *Server) enrol(w http.ResponseWriter, r *http.Request, _ caller) error {
	var body wire.EnrolRequest
	if err := decode(w, r, maxRequest, &body); err != nil {
		return err
	}
	switch {
	case body.Capability < 1:
		return errs.Invalid("capability", "this build of the agent is not known here")
	case body.Token == "":
		return errs.New(errs.EnrolmentTokenInvalid, "the enrolment token is unknown, used or expired")
	case len(body.Hostname) > maxHostname:
		return errs.Invalid("hostname", "longer than %d bytes", maxHostname)
	}
	if _, err := pki.ParseRequest([]byte(body.CSR)); err != nil {
		return errs.Invalid("csr", "%v", err)
	}
	var made pki.Certificate
	node, err := s.Nodes.Enrol(r.Context(), body.Token, s.issue(body.CSR, &made))
	if err != nil {
		return err
	}
	s.Log.InfoContext(r.Context(), "node enrolled", "node", node, "hostname", body.Hostname, "serial", made.Serial)
	s.write(w, r, http.StatusOK, s.identity(node, made))
	return nil
}

// renew gives a node its next certificate.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, who caller) error {
	var body wire.RenewRequest
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
	var made pki.Certificate
	if err := s.Nodes.Renew(r.Context(), who.Node, who.Serial, s.issue(body.CSR, &made)); err != nil {
		return err
	}
	s.write(w, r, http.StatusOK, s.identity(who.Node, made))
	return nil
}

// issue makes the certificate when the room says for which node. A transaction
// that is tried again may call it again; the last certificate counts.
func (s *Server) issue(csr string, made *pki.Certificate) func(ids.Node) (string, time.Time, []byte, error) {
	life := s.CertificateFor
	if life == 0 {
		life = pki.MaxTTL
	}
	return func(node ids.Node) (string, time.Time, []byte, error) {
		name := pki.Name{Domain: s.TrustDomain, Kind: "node", ID: node.String()}
		var err error
		*made, err = s.CA.Issue([]byte(csr), name.URI(), life)
		return made.Serial, made.NotAfter, made.Chain, err
	}
}

func (s *Server) identity(node ids.Node, made pki.Certificate) wire.EnrolReply {
	return wire.EnrolReply{Node: node, Certificate: string(made.Chain), NotAfter: made.NotAfter, Trust: s.believe(), ReportEvery: s.period(node)}
}

func (s *Server) believe() wire.Trust {
	return wire.Trust{CAs: string(s.CA.Bundle()), TaskKeys: s.Keys.Public()}
}

func (s *Server) trust(w http.ResponseWriter, r *http.Request, _ caller) error {
	s.write(w, r, http.StatusOK, s.believe())
	return nil
}

func (s *Server) result(w http.ResponseWriter, r *http.Request, who caller) error {
	task, err := taskOf(r)
	if err != nil {
		return err
	}
	var body wire.Result
	if err := decode(w, r, maxResult, &body); err != nil {
		return err
	}
	if body.Task != task {
		return errs.Invalid("task_id", "is not the task of the path")
	}
	if err := s.Tasks.Finish(r.Context(), who.Node, body); err != nil {
		return err
	}
	s.done(w)
	return nil
}

func (s *Server) progress(w http.ResponseWriter, r *http.Request, who caller) error {
	task, err := taskOf(r)
	if err != nil {
		return err
	}
	var body wire.Progress
	if err := decode(w, r, maxRequest, &body); err != nil {
		return err
	}
	if err := s.Tasks.Step(r.Context(), who.Node, task, body); err != nil {
		return err
	}
	s.done(w)
	return nil
}

func (s *Server) report(w http.ResponseWriter, r *http.Request, who caller) error {
	var body wire.Report
	if err := decode(w, r, maxReport, &body); err != nil {
		return err
	}
	if err := s.Reports.Report(r.Context(), who.Node, body); err != nil {
		return err
	}
	s.write(w, r, http.StatusOK, wire.ReportReply{ReportEvery: s.period(who.Node)})
	return nil
}

// period is how often a node should report, in seconds; 0 leaves it to the node.
func (s *Server) period(node ids.Node) int {
	if s.ReportEvery == nil {
		return 0
	}
	return int(s.ReportEvery(node) / time.Second)
}

func taskOf(r *http.Request) (ids.Task, error) {
	task, err := ids.Parse[ids.Task](r.PathValue("task"))
	if err != nil {
		return ids.Task{}, errs.New(errs.NotFound, "no such task")
	}
	return task, nil
}

// decode reads one JSON value of a known form and nothing after it.
func decode(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	if r.URL.RawQuery != "" {
		return errs.New(errs.UnknownParameter, "this call takes no query")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errs.New(errs.MediaTypeUnsupported, "the body must be application/json")
	}
	err := wire.Strict(http.MaxBytesReader(w, r.Body, limit), into)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return errs.New(errs.BodyTooLarge, "the body is larger than %d bytes", limit)
	case err != nil:
		return errs.Invalid("body", "%v", err)
	}
	return nil
}
