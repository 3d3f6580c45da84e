package nodeapi

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

// Enrolment is the request of a computer to become a node.
type Enrolment struct {
	Token    string
	ProofKey []byte // verifies the node's proofs; optional
}

// Grant contains the certificate of a node and the trust state that goes with it.
type Grant struct {
	Certificate pki.Certificate
	Trust       protocol.Trust
}

func (g Grant) stamp() string {
	return secret.Stamp([]byte(g.Trust.CAs), g.Trust.TaskKeys, g.Trust.StatementKeys, g.Trust.RelayKeys)
}

// Issue creates the grant of a node. The certificate authority may be a remote system, so Issue is
// called outside any transaction.
type Issue func(ctx context.Context, node ids.Node) (Grant, error)

// Admitted is the result of an enrolment.
type Admitted struct {
	Node  ids.Node
	Grant Grant
	Ended []string // serials of the certificates that this enrolment revoked
}

// letGoWithin limits the release of a token after a failed enrolment. The caller may have
// disconnected, so the release runs without the caller's context.
const letGoWithin = 5 * time.Second

// Enrol exchanges a token for a certificate. The token is reserved while the certificate is issued,
// and used up in the transaction that records the certificate. So only one of several concurrent
// requests with the same token gets a certificate, and a failed request does not use up the token.
// Enrol revokes the earlier certificates of the node. While a restore is not confirmed it is rejected: a token that was used in the
// lost time would be accepted again.
func (i *Intake) Enrol(ctx context.Context, e Enrolment, issue Issue) (a Admitted, err error) {
	if err := i.Restore.Err(); err != nil {
		return a, err
	}
	token, err := i.Inventory.ReserveToken(ctx, e.Token)
	if err != nil {
		return a, err
	}
	a.Node = token.Node
	var recorded secret.InForce
	if a.Grant, err = issue(ctx, a.Node); err == nil {
		err = pgx.BeginFunc(ctx, i.DB, func(tx pgx.Tx) error {
			if err := i.Inventory.SpendToken(ctx, tx, token, e.ProofKey); err != nil {
				return err
			}
			if a.Ended, err = i.Certificates.Revoke(ctx, tx, a.Node, "enrolled again"); err != nil {
				return err
			}
			recorded, err = i.Certificates.Enrolled(ctx, tx, a.Node, a.Grant.Certificate, a.Grant.stamp())
			return err
		})
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoWithin)
		defer cancel()
		_ = i.Inventory.ReleaseToken(ctx, token) // if this fails, the reservation expires
		return a, err
	}
	i.Certificates.Added(a.Node, a.Grant.Certificate.Serial, recorded)
	return a, nil
}

// Renew issues the next certificate of an enrolled node. The transaction that records it checks
// again that the node is active and that the certificate in use is in force. So a revocation that
// happens while the new certificate is issued has precedence, and the new certificate never
// becomes valid.
func (i *Intake) Renew(ctx context.Context, node ids.Node, serial string, issue Issue) (grant Grant, err error) {
	if grant, err = issue(ctx, node); err != nil {
		return grant, err
	}
	var recorded secret.InForce
	err = pgx.BeginFunc(ctx, i.DB, func(tx pgx.Tx) (err error) {
		if err := i.Inventory.LockActive(ctx, tx, node); err != nil {
			return err
		}
		if err := i.Certificates.Renewing(ctx, tx, node, serial); err != nil {
			return err
		}
		recorded, err = i.Certificates.Renewed(ctx, tx, node, grant.Certificate, grant.stamp())
		return err
	})
	if err == nil {
		i.Certificates.Added(node, grant.Certificate.Serial, recorded)
	}
	return grant, err
}

// Check rejects a certificate that is not in force. A restored database has lost renewals: until an operator confirms the restore,
// a certificate of a known node that TLS has verified is recorded.
func (i *Intake) Check(ctx context.Context, node ids.Node, serial string) error {
	err := i.Certificates.Check(ctx, node, serial, i.Clock.Now())
	if errs.CodeOf(err) != errs.CertificateRevoked || !i.Restore.Closed() {
		return err
	}
	adopted, failed := i.Certificates.Adopt(ctx, node, serial, i.Clock.Now())
	if failed != nil || !adopted {
		return errors.Join(failed, err)
	}
	i.log().WarnContext(ctx, "a node presents a certificate that the restored database does not know", "component", "nodeapi", "node_id", node, "serial", serial)
	return nil
}

// Find describes a certificate in force.
func (i *Intake) Find(ctx context.Context, node ids.Node, serial string) (secret.InForce, error) {
	return i.Certificates.Find(ctx, node, serial, i.Clock.Now())
}

// Fallen returns those of the serials that are no longer in force.
func (i *Intake) Fallen(ctx context.Context, serials []string) ([]string, error) {
	return i.Certificates.Fallen(ctx, serials, i.Clock.Now())
}
