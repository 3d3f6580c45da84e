package payment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Dispute is a payment that the holder of the card disputes at the bank.
type Dispute struct {
	ID        string // at the provider
	Payment   string
	Session   ids.PaymentSession
	Tenant    ids.Tenant
	Amount    money.Minor
	Currency  string
	Reason    string
	Stage     DisputeStage
	Taken     money.Minor // of what was left of the payment; the rest of the amount had been refunded before
	Transfer  *uuid.UUID  // of the withdrawal; nil: nothing was withdrawn
	CreatedAt time.Time
	StageAt   time.Time
	Version   int64
}

// disputeOrder sorts the stages. A report of an earlier stage than the recorded one is late.
var disputeOrder = []DisputeStage{DisputeInquiry, DisputeOpen, DisputeLost, DisputeWon}

// withdrawn reports whether the bank has the money.
func (s DisputeStage) withdrawn() bool { return s == DisputeOpen || s == DisputeLost }

// URN is the resource name of a dispute.
func (d Dispute) URN(n ids.Naming) string {
	return n.Name(d.Tenant.String(), "", "dispute", d.ID).String()
}

// applyDispute records the stage of a dispute. The amount leaves the balance when the bank withdraws it,
// whatever the balance is, and returns if the dispute is won.
func (s *Service) applyDispute(ctx context.Context, tx pgx.Tx, said Disputed) (Outcome, error) {
	c, found, err := lockCredited(ctx, tx, said.Payment, said.Session)
	switch {
	case err != nil:
		return Outcome{}, err
	case !found:
		return Outcome{Result: ResultNotOurs}, nil
	case said.Currency != c.currency || said.Amount <= 0 || !slices.Contains(disputeOrder, said.Stage):
		return Outcome{Result: ResultDisagrees, Reason: "amount", Attention: true}, nil
	}
	d, err := oneDispute(ctx, tx, said.ID)
	switch {
	case err != nil:
		return Outcome{}, err
	case d.ID == "":
		d = Dispute{ID: said.ID, Payment: said.Payment, Tenant: c.tenant, Amount: said.Amount, Currency: c.currency, Reason: said.Reason, CreatedAt: s.now()}
	case d.Payment != said.Payment || d.Amount != said.Amount:
		return Outcome{Result: ResultDisagrees, Reason: "dispute", Attention: true}, nil
	case slices.Index(disputeOrder, said.Stage) <= slices.Index(disputeOrder, d.Stage):
		return Outcome{Result: ResultUnchanged}, nil
	}
	if said.Stage.withdrawn() && !d.Stage.withdrawn() {
		if d.Amount > c.left && c.busy {
			return Outcome{}, inProgress(d.Payment)
		}
		d.Taken = min(d.Amount, c.left)
	}
	return Outcome{Result: resultDisputed, Reason: string(said.Stage)}, s.moveDispute(ctx, tx, d, said.Stage)
}

// moveDispute writes the row, the transfer, the audit row and the event of a new stage.
func (s *Service) moveDispute(ctx context.Context, tx pgx.Tx, d Dispute, to DisputeStage) error {
	b := &pgx.Batch{}
	t := ledger.Transfer{ID: uuid.Must(uuid.NewV7()), Reference: d.ID, Amount: d.Amount, Currency: d.Currency, Note: "dispute of payment " + d.Payment}
	switch was := d.Stage.withdrawn(); {
	case to.withdrawn() && !was:
		t.Kind, t.From, t.To = ledger.Dispute, ledger.BalanceOf(d.Tenant), ledger.Clearing
		d.Transfer = &t.ID
		b.Queue(withdrawPayment, d.Payment, d.Taken)
		ledger.QueueTransfer(b, t, nil)
	case was && !to.withdrawn():
		t.Kind, t.From, t.To = ledger.DisputeReversed, ledger.Clearing, ledger.BalanceOf(d.Tenant)
		b.Queue(giveToPayment, d.Payment, d.Taken)
		ledger.QueueTransfer(b, t, nil)
	}
	before := d.Stage
	d.Stage, d.StageAt, d.Version = to, s.now(), d.Version+1
	b.Queue(putDispute, d.ID, d.Payment, d.Tenant, d.Amount, d.Currency, d.Reason, d.Stage, d.Taken, d.Transfer, d.CreatedAt, d.StageAt, d.Version)
	audit.Queue(b, audit.Entry{
		Tenant: d.Tenant, By: audit.By{Actor: ActorProvider}, Action: "payment.dispute", Target: d.URN(s.Naming),
		After: map[string]any{"was": before, "is": to, "payment": d.Payment, "amount_minor": d.Amount, "currency": d.Currency, "reason": d.Reason},
	})
	event.Queue(b, event.Draft{
		Stream: event.StreamPayments, Subject: SubjectDisputed, Aggregate: "dispute:" + d.ID, Sequence: d.Version, Tenant: d.Tenant, URN: d.URN(s.Naming),
		Payload: DisputedEvent{Dispute: d.ID, Stage: d.Stage, Reason: d.Reason, AmountMinor: d.Amount, Currency: d.Currency},
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("moving dispute %s to %s: %w", d.ID, to, err)
	}
	return s.balanceMoved(ctx, tx, d.Tenant)
}

// Disputes lists the disputes of a tenant, or of all if it is zero, newest first, from the one after the
// given id.
func (s *Service) Disputes(ctx context.Context, tenant ids.Tenant, after string, limit int) ([]Dispute, error) {
	rows, err := s.DB.Query(ctx, selectDisputes, tenant, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing disputes: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanDispute)
	return all, wrap("listing disputes", err)
}

// oneDispute locks and reads a dispute. The result has no id if it is not recorded.
func oneDispute(ctx context.Context, tx pgx.Tx, id string) (Dispute, error) {
	rows, err := tx.Query(ctx, lockDispute, id)
	if err != nil {
		return Dispute{}, fmt.Errorf("reading dispute %s: %w", id, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDispute)
	if errors.Is(err, pgx.ErrNoRows) {
		return Dispute{}, nil
	}
	return d, wrap("reading dispute "+id, err)
}

func scanDispute(row pgx.CollectableRow) (d Dispute, err error) {
	err = row.Scan(&d.ID, &d.Payment, &d.Session, &d.Tenant, &d.Amount, &d.Currency, &d.Reason, &d.Stage, &d.Taken, &d.Transfer, &d.CreatedAt, &d.StageAt, &d.Version)
	d.CreatedAt, d.StageAt = d.CreatedAt.UTC(), d.StageAt.UTC()
	return d, err
}

// Statements about disputes. They sort by time and id, newest first.
const (
	disputes = `SELECT d.id, d.payment, p.session_id, d.org_id, d.amount_minor, d.currency, d.reason, d.stage, d.taken_minor, d.transfer_id, d.created_at, d.stage_at, d.version
		FROM payment_disputes d JOIN stripe_payments p ON p.payment = d.payment`
	lockDispute    = disputes + ` WHERE d.id = $1 FOR UPDATE OF d`
	selectDisputes = disputes + ` WHERE ($1::uuid = '00000000-0000-0000-0000-000000000000' OR d.org_id = $1)
			AND ($2 = '' OR (d.created_at, d.id) < (SELECT n.created_at, n.id FROM payment_disputes n WHERE n.id = $2))
		ORDER BY d.created_at DESC, d.id DESC LIMIT $3`
	putDispute = `INSERT INTO payment_disputes (id, payment, org_id, amount_minor, currency, reason, stage, taken_minor, transfer_id, created_at, stage_at, version)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (id) DO UPDATE SET stage = excluded.stage, taken_minor = excluded.taken_minor, transfer_id = excluded.transfer_id, stage_at = excluded.stage_at, version = excluded.version`
)
