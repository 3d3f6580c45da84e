package nodeapi

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// ackWithin limits the signature of one response. A remote key store that does not respond must not delay
// reports; the helper of the node then continues as without a control plane.
const ackWithin = time.Second

// ackedError is an error whose response contains a signed part.
type ackedError struct {
	error

	ack protocol.Signed
}

func (e ackedError) Unwrap() error { return e.error }

// orderOf returns the number by which the reports of a node are sorted before their boot number. A report that the
// helper has signed follows all that it has not signed, whatever their boot number.
func orderOf(enrolment int64, r protocol.Report) int64 {
	if len(r.Origin) > 0 {
		return 2*enrolment + 1
	}
	return 2 * enrolment
}

// ack signs the response to a report that was accepted or is stale. Other errors have none.
func (s *Server) ack(ctx context.Context, node ids.Node, r protocol.Report, err error) (protocol.Signed, error) {
	stale := errs.CodeOf(err) == errs.StaleReport
	if r.Nonce == "" || err != nil && !stale {
		return protocol.Signed{}, err
	}
	a := protocol.ReportAck{V: protocol.Version, Kid: s.Statements.Active(), Node: node, Nonce: r.Nonce, Accepted: !stale, Verified: len(r.Origin) > 0}
	if coded, ok := errors.AsType[*errs.Error](err); ok {
		a.Boot, _ = coded.Details["boot"].(int64)
	}
	signed, failed := s.signAck(ctx, a)
	if failed != nil {
		s.Log.WarnContext(ctx, "response to a report not signed", "node", node, "err", failed)
		return protocol.Signed{}, err
	}
	if stale {
		return signed, ackedError{err, signed}
	}
	return signed, nil
}

func (s *Server) signAck(ctx context.Context, a protocol.ReportAck) (protocol.Signed, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	body, err := a.Canonical()
	if err != nil {
		return protocol.Signed{}, err
	}
	signature, err := s.Statements.Sign(ctx, a.Kid, body)
	return protocol.Signed{Kid: a.Kid, Body: body, Signature: signature}, err
}

// checkOrigin rejects a report whose signature is not of the helper of the node. A report of a node that
// enrolled without a proof key counts as unsigned.
func (i *Intake) checkOrigin(ctx context.Context, tx pgx.Tx, node ids.Node, r *protocol.Report) error {
	if len(r.Origin) == 0 {
		return nil
	}
	key, err := i.Inventory.ProofKey(ctx, tx, node)
	if err != nil {
		return err
	}
	if len(key) == 0 {
		r.Enrolment &^= 1
		return nil
	}
	if err := r.VerifyOrigin(key, node); err != nil {
		i.Metrics.rejected(reasonOrigin, 1)
		return errs.Invalid("origin", "%v: enrol the node again if its proof key was replaced", err)
	}
	return r.SetSigned(key, node)
}
