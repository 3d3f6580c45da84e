package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Kind is the purpose of a transfer.
type Kind string

// The kinds. Only UsageStatement posts usage, and StorageStatement storage.
const (
	Usage             Kind = "usage"
	Storage           Kind = "storage" // stored bytes
	TestCredit        Kind = "test_credit"
	TopUp             Kind = "topup"
	Adjustment        Kind = "adjustment"
	FaultCredit       Kind = "fault_credit"
	RefundCardUnspent Kind = "refund_card_unspent" // credit that was not used, to the card
	RefundCardCharge  Kind = "refund_card_charge"  // a charge, to the card
	RefundLedger      Kind = "refund_ledger"       // a charge, as credit
	RefundReversed    Kind = "refund_reversed"     // of a refund that the card did not accept
	Dispute           Kind = "dispute"             // a payment that the bank of the card has withdrawn
	DisputeReversed   Kind = "dispute_reversed"    // of a dispute that the platform has won
)

// Account is a tenant's balance, or one of the platform's own, which there is for
// each currency.
type Account struct {
	Tenant ids.Tenant // zero for the platform's
	Name   string
}

// The platform's accounts: revenue of usage, money at the payment provider, test credit, adjustments by
// an operator, and fault credits.
var (
	Revenue     = Account{Name: "revenue"}
	Clearing    = Account{Name: "clearing"}
	Promotions  = Account{Name: "promotions"}
	Adjustments = Account{Name: "adjustments"}
	Refunds     = Account{Name: "refunds"}
)

const balance = "balance"

// BalanceOf returns the balance account of the tenant.
func BalanceOf(tenant ids.Tenant) Account { return Account{Tenant: tenant, Name: balance} }

// move is the pair of accounts, by name, between which a kind may move money.
type move struct{ from, to string }

// moves lists the accounts between which each kind may move money. The check rejects any other pair: an error of the
// caller must not move money to the wrong account.
var moves = map[Kind][]move{
	TestCredit:        {{Promotions.Name, balance}},
	TopUp:             {{Clearing.Name, balance}},
	Adjustment:        {{Adjustments.Name, balance}, {balance, Adjustments.Name}},
	FaultCredit:       {{Revenue.Name, balance}},
	RefundCardUnspent: {{balance, Clearing.Name}},
	RefundCardCharge:  {{Refunds.Name, Clearing.Name}},
	RefundLedger:      {{Refunds.Name, balance}},
	RefundReversed:    {{Clearing.Name, balance}, {Clearing.Name, Refunds.Name}},
	Dispute:           {{balance, Clearing.Name}},
	DisputeReversed:   {{Clearing.Name, balance}},
}

// Transfer moves a positive amount from one account to another. Kind and Reference together identify its
// reason: a second transfer with the same reason has no effect, and the first amount stays.
type Transfer struct {
	ID         uuid.UUID // fresh, of version 7: the caller may name it in rows of its own
	Kind       Kind
	Reference  string
	From, To   Account
	Amount     money.Minor
	Currency   string
	Allocation ids.Allocation // zero when it is about none
	Note       string         // for people, at most 512 characters
}

// most bounds one transfer far above any payment, and so far below 2^63 that no
// number of them in a lifetime makes a balance overflow.
const most money.Minor = 1e15

// noteLength is the limit of the column.
const noteLength = 512

func (t Transfer) check() error {
	switch {
	case t.ID == uuid.Nil:
		return errors.New("it has no id")
	case t.Reference == "":
		return errors.New("it has no reference")
	case t.Currency == "":
		return errors.New("it has no currency")
	case t.Amount <= 0:
		return errs.Invalid("amount_minor", "an amount is above zero, not %d", t.Amount)
	case t.Amount > most:
		return errs.Invalid("amount_minor", "an amount is at most %d", most).With("maximum", most)
	case len([]rune(t.Note)) > noteLength:
		return errs.Invalid("note", "a note has at most %d characters", noteLength)
	case !slices.Contains(moves[t.Kind], move{t.From.Name, t.To.Name}):
		return fmt.Errorf("transfer kind %s does not allow %s to %s", t.Kind, t.From.Name, t.To.Name)
	}
	return nil
}

// Transfer posts t. It returns false when its kind and reference were there.
func (s *Service) Transfer(ctx context.Context, tx pgx.Tx, t Transfer) (posted bool, err error) {
	b := &pgx.Batch{}
	QueueTransfer(b, t, &posted)
	err = tx.SendBatch(ctx, b).Close()
	return posted, err
}

// QueueTransfer posts t in the caller's batch, which fails with it. It creates missing accounts of the
// tenant. posted may be nil; after the batch it is true if kind and reference were new.
func QueueTransfer(b *pgx.Batch, t Transfer, posted *bool) {
	if err := t.check(); err != nil {
		b.Queue(`SELECT`).Exec(func(pgconn.CommandTag) error { return t.failed(err) })
		return
	}
	b.Queue(insertTransfer, t.ID, t.Kind, t.Reference, t.Note, tenantOrNull(t.From), t.From.Name, tenantOrNull(t.To), t.To.Name,
		t.Amount, t.Currency, allocationOrNull(t.Allocation)).QueryRow(func(row pgx.Row) error {
		var from, to *uuid.UUID
		var fresh bool
		err := row.Scan(&from, &to, &fresh)
		switch {
		case err != nil:
			return t.failed(ensuring(err, cmp.Or(t.From.Tenant, t.To.Tenant), t.Currency))
		case from == nil:
			return t.failed(unknown(t.From, t.Currency))
		case to == nil:
			return t.failed(unknown(t.To, t.Currency))
		case posted != nil:
			*posted = fresh
		}
		return nil
	})
}

func (t Transfer) failed(err error) error {
	return fmt.Errorf("posting transfer %s %s: %w", t.Kind, t.Reference, err)
}

// unknown is an internal error: QueueTransfer creates the accounts of a tenant's currency first.
func unknown(a Account, currency string) error {
	return fmt.Errorf("account %s in %s of %s does not exist", a.Name, currency, a.Tenant)
}

// tenantOrNull is null for the platform's accounts, as the table has it.
func tenantOrNull(a Account) *uuid.UUID {
	if a.Tenant == (ids.Tenant{}) {
		return nil
	}
	return &a.Tenant.UUID
}

func allocationOrNull(a ids.Allocation) *uuid.UUID {
	if a == (ids.Allocation{}) {
		return nil
	}
	return &a.UUID
}

// TestCredit credits a tenant that has an account with money that was not paid, once per reference.
func (s *Service) TestCredit(ctx context.Context, tx pgx.Tx, tenant ids.Tenant, amount money.Minor, reference string) error {
	_, currency, err := s.Balance(ctx, tx, tenant)
	if err != nil {
		return err
	}
	_, err = s.Transfer(ctx, tx, Transfer{
		ID: uuid.Must(uuid.NewV7()), Kind: TestCredit, Reference: reference,
		From: Promotions, To: BalanceOf(tenant), Amount: amount, Currency: currency,
	})
	return err
}
