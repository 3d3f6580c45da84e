package nodeapi

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

// Enrolment is what a host shows to become a node.
type Enrolment struct {
	Token    string
	ProofKey []byte // by which it will sign what it proves; may be missing
}

// Grant is what a node gets: a certificate, and what to believe with it.
type Grant struct {
	Certificate pki.Certificate
	Trust       protocol.Trust
}

func (g Grant) stamp() string { return secret.Stamp([]byte(g.Trust.CAs), g.Trust.TaskKeys) }

// Issue makes a grant for the node that the rooms have found. It may ask another
// machine, so it is called outside any transaction.
type Issue func(ctx context.Context, node ids.Node) (Grant, error)

// Admitted is a node that was let in.
type Admitted struct {
	Node  ids.Node
	Grant Grant
	Ended []string // serials that its last enrolment had left
}

// letGoWithin is for giving a token back after a caller who may be gone.
const letGoWithin = 5 * time.Second

// Enrol trades a token for a certificate. The token is reserved while the
// certificate is made, and spent in the transaction that records it: of many who
// show it one gets a certificate, and a token is spent only on one. What the node
// held before ends.
func (i *Intake) Enrol(ctx context.Context, e Enrolment, issue Issue) (a Admitted, err error) {
	token, err := i.Inventory.ReserveToken(ctx, e.Token)
	if err != nil {
		return a, err
	}
	a.Node = token.Node
	if a.Grant, err = issue(ctx, a.Node); err == nil {
		err = pgx.BeginFunc(ctx, i.DB, func(tx pgx.Tx) error {
			if err := i.Inventory.SpendToken(ctx, tx, token, e.ProofKey); err != nil {
				return err
			}
			if a.Ended, err = i.Certificates.Revoke(ctx, tx, a.Node, "enrolled again"); err != nil {
				return err
			}
			return i.Certificates.Issued(ctx, tx, a.Node, a.Grant.Certificate, a.Grant.stamp())
		})
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoWithin)
		defer cancel()
		_ = i.Inventory.ReleaseToken(ctx, token) // it lets go by itself after a while
		return a, err
	}
	i.Certificates.Added(a.Node, a.Grant.Certificate.Serial, a.Grant.stamp())
	return a, nil
}

// Renew gives an enrolled node its next certificate. Whether the old one stands,
// and the node may speak, is asked again when the new one is recorded: a
// revocation while it was made wins, and the new one is never in force.
func (i *Intake) Renew(ctx context.Context, node ids.Node, serial string, issue Issue) (grant Grant, err error) {
	if grant, err = issue(ctx, node); err != nil {
		return grant, err
	}
	err = pgx.BeginFunc(ctx, i.DB, func(tx pgx.Tx) error {
		if err := i.Inventory.LockActive(ctx, tx, node); err != nil {
			return err
		}
		if err := i.Certificates.Renewing(ctx, tx, node, serial); err != nil {
			return err
		}
		return i.Certificates.Issued(ctx, tx, node, grant.Certificate, grant.stamp())
	})
	if err == nil {
		i.Certificates.Added(node, grant.Certificate.Serial, grant.stamp())
	}
	return grant, err
}

// Check refuses a certificate that is not in force.
func (i *Intake) Check(ctx context.Context, node ids.Node, serial string) error {
	return i.Certificates.Check(ctx, node, serial, i.Clock.Now())
}

// Believes is the stamp of what the holder of serial was told to believe.
func (i *Intake) Believes(ctx context.Context, node ids.Node, serial string) (string, error) {
	return i.Certificates.TrustOf(ctx, node, serial, i.Clock.Now())
}

// Fallen returns those of the serials that are no longer in force.
func (i *Intake) Fallen(ctx context.Context, serials []string) ([]string, error) {
	return i.Certificates.Fallen(ctx, serials, i.Clock.Now())
}
