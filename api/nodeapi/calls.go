package nodeapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// The largest accepted bodies, in bytes. A report of 256 devices with their reasons is below 200
// kB.
const (
	maxRequest  = 16 << 10 // certificate requests, progress
	maxResult   = 256 << 10
	maxReport   = 1 << 20
	maxHostname = 253
)

func (s *Server) result(w http.ResponseWriter, r *http.Request, who caller) error {
	task, err := taskOf(r)
	if err != nil {
		return err
	}
	var body protocol.Result
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
	var body protocol.Progress
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
	var body protocol.Report
	if err := decode(w, r, maxReport, &body); err != nil {
		return err
	}
	has, err := s.Nodes.Find(r.Context(), who.Node, who.Serial)
	if err != nil {
		return err
	}
	if body.Nonce != "" && !protocol.IsNonce(body.Nonce) {
		return errs.Invalid("nonce", "is not 128 bits in hex")
	}
	body.Enrolment = orderOf(has.Enrolment, body)
	ack, err := s.ack(r.Context(), who.Node, body, s.Reports.Report(r.Context(), who.Node, body))
	if err != nil {
		return err
	}
	s.write(w, r, http.StatusOK, protocol.ReportReply{
		ReportEvery: s.period(who.Node), Renew: s.shouldRenew(who, has, body.Capability), Ack: ack,
	})
	return nil
}

// storageKey hands the access keys of the mounts of an allocation to its node.
func (s *Server) storageKey(w http.ResponseWriter, r *http.Request, who caller) error {
	allocation, err := ids.Parse[ids.Allocation](r.PathValue("allocation"))
	if err != nil {
		return errs.New(errs.NotFound, "no such allocation")
	}
	if err := decode(w, r, maxRequest, &struct{}{}); err != nil {
		return err
	}
	keys, err := s.MountKeys.ExtendMounts(r.Context(), who.Node, allocation)
	if err != nil {
		return err
	}
	s.write(w, r, http.StatusOK, keys)
	return nil
}

// period returns the report interval of a node in seconds. Zero means that the node chooses.
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

// decode reads exactly one JSON value and rejects unknown fields and trailing data.
func decode(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	if r.URL.RawQuery != "" {
		return errs.New(errs.UnknownParameter, "the operation has no query parameters")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errs.New(errs.MediaTypeUnsupported, "the body must be application/json")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	switch {
	case isTooLarge(err):
		return errs.New(errs.BodyTooLarge, "the body is larger than %d bytes", limit)
	case err != nil:
		return errs.Invalid("body", "could not be read").Because(err)
	case bytes.Contains(text, []byte(`\u0000`)):
		return errs.Invalid("body", "contains the character U+0000, which cannot be stored")
	}
	if err := protocol.Strict(bytes.NewReader(text), into); err != nil {
		return errs.Invalid("body", "is not valid for this operation").Because(err)
	}
	return nil
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
