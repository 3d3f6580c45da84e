package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Extract is a part of the chain of a tenant's balance, from one seal to another, that is verified without the database.
type Extract struct {
	Account  uuid.UUID   `json:"account_id"`
	Tenant   ids.Tenant  `json:"tenant_id"`
	Currency string      `json:"currency"`
	Before   Seal        `json:"before"` // zero if the extract begins with the first entry
	Seals    []Seal      `json:"seals"`
	Entries  []EntryLink `json:"entries"`
}

// Seal is a checkpoint of an account.
type Seal struct {
	UpTo     int64       `json:"up_to"` // the last entry that it covers
	Balance  money.Minor `json:"balance_minor"`
	Chain    []byte      `json:"chain"`
	SealedAt time.Time   `json:"sealed_at"`
	Text     string      `json:"text"` // of the checkpoint and its account, as the hash covers it
}

// EntryLink is an entry with the text that the chain covers.
type EntryLink struct {
	ID         int64          `json:"id"`
	At         time.Time      `json:"at"`
	Kind       Kind           `json:"kind"`
	Allocation ids.Allocation `json:"allocation_id,omitzero"`
	Project    ids.Project    `json:"project_id,omitzero"` // of stored bytes
	Amount     money.Minor    `json:"amount_minor"`
	Text       string         `json:"text"`
}

const (
	selectBalanceAccount = `SELECT id, currency FROM ledger_accounts WHERE org_id = $1 AND name = 'balance'`

	// The bounds are seals: the last one before the first entry of the period, and the first one after its last entry.
	selectBounds = `
	WITH period AS (
		SELECT min(id) AS first, max(id) AS last FROM ledger_entries WHERE account_id = $1 AND at >= $2 AND at < $3
	)
	SELECT coalesce((SELECT max(c.up_to) FROM ledger_checkpoints c WHERE c.account_id = $1 AND c.up_to < first), 0),
		coalesce((SELECT min(c.up_to) FROM ledger_checkpoints c WHERE c.account_id = $1 AND c.up_to >= last), last, 0)
	FROM period`

	selectExtractSeals = `
	SELECT c.up_to, c.balance_minor, c.chain, c.sealed_at, ` + sealText + `
	FROM ledger_checkpoints c JOIN ledger_accounts a ON a.id = c.account_id
	WHERE c.account_id = $1 AND c.up_to BETWEEN $2 AND $3 ORDER BY c.up_to`

	selectExtractEntries = `
	SELECT e.id, e.at, t.kind, coalesce(e.allocation_id, '00000000-0000-0000-0000-000000000000'),
		CASE t.kind WHEN 'storage' THEN split_part(t.reference, ' ', 2) ELSE '00000000-0000-0000-0000-000000000000' END::uuid, e.amount_minor, ` + entryText + `
	FROM ledger_entries e JOIN ledger_transfers t ON t.id = e.transfer_id
	WHERE e.account_id = $1 AND e.id > $2 AND e.id <= $3 ORDER BY e.id LIMIT $4`
)

// MostLinks limits an extract, so that a response fits into memory.
const MostLinks = 100_000

// ErrTooLong means that the period has more entries than an extract may have.
var ErrTooLong = errors.New("the period has too many entries")

// ExtractOf returns the part of the chain that contains the entries of [from, to).
func (s *Service) ExtractOf(ctx context.Context, q pg.Queryer, tenant ids.Tenant, from, to time.Time) (e Extract, err error) {
	e.Tenant, e.Seals, e.Entries = tenant, []Seal{}, []EntryLink{}
	err = q.QueryRow(ctx, selectBalanceAccount, tenant.UUID).Scan(&e.Account, &e.Currency)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, noBalance()
	}
	if err != nil {
		return e, fmt.Errorf("reading the account of tenant %s: %w", tenant, err)
	}
	var first, last int64
	if err := q.QueryRow(ctx, selectBounds, e.Account, from, to).Scan(&first, &last); err != nil {
		return e, fmt.Errorf("reading the seals of tenant %s: %w", tenant, err)
	}
	rows, err := q.Query(ctx, selectExtractSeals, e.Account, first, last)
	if err != nil {
		return e, fmt.Errorf("reading the seals of tenant %s: %w", tenant, err)
	}
	seals, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Seal])
	if err != nil {
		return e, fmt.Errorf("reading the seals of tenant %s: %w", tenant, err)
	}
	if len(seals) > 0 && seals[0].UpTo == first {
		e.Before, seals = seals[0], seals[1:]
	}
	e.Seals = append(e.Seals, seals...)
	if rows, err = q.Query(ctx, selectExtractEntries, e.Account, first, last, MostLinks+1); err != nil {
		return e, fmt.Errorf("reading the entries of tenant %s: %w", tenant, err)
	}
	entries, err := pgx.CollectRows(rows, func(one pgx.CollectableRow) (l EntryLink, err error) {
		return l, one.Scan(&l.ID, &l.At, &l.Kind, &l.Allocation.UUID, &l.Project.UUID, &l.Amount, &l.Text)
	})
	if err != nil {
		return e, fmt.Errorf("reading the entries of tenant %s: %w", tenant, err)
	}
	if len(entries) > MostLinks {
		return e, ErrTooLong
	}
	e.Entries = append(e.Entries, entries...)
	return e, nil
}

// Verify computes the chain again and returns its faults. Entries after the last seal are in no seal yet; open is their
// number.
func (e Extract) Verify() (faults []Fault, open int64) {
	c := &Chain{Account: e.Account, Tenant: e.Tenant, Name: balance, Currency: e.Currency}
	w := walk{
		chain: c, passed: seal{upTo: e.Before.UpTo, balance: e.Before.Balance, chain: e.Before.Chain}, total: e.Before.Balance,
		found: func(f Fault) { faults = append(faults, f) },
	}
	for _, s := range e.Seals {
		w.seals = append(w.seals, seal{account: e.Account, upTo: s.UpTo, balance: s.Balance, chain: s.Chain, at: s.SealedAt, text: []byte(s.Text)})
	}
	for _, l := range e.Entries {
		if !l.matches(e.Currency) {
			w.found(Fault{Wrong: SealedChanged, After: l.ID - 1, UpTo: l.ID})
		}
		w.addEntry(&link{account: e.Account, id: l.ID, amount: l.Amount, currency: e.Currency, posted: l.At, text: []byte(l.Text)})
	}
	w.end()
	return faults, c.Unsealed
}

// matches reports whether the text contains the fields. Its first columns are numbers, ids, a currency and a kind, which
// PostgreSQL never quotes.
func (l EntryLink) matches(currency string) bool {
	part := strings.SplitN(strings.TrimPrefix(l.Text, "("), ",", 8)
	allocation := ""
	if l.Allocation != (ids.Allocation{}) {
		allocation = l.Allocation.String()
	}
	return len(part) == 8 && part[0] == strconv.FormatInt(l.ID, 10) && part[2] == allocation &&
		part[3] == strconv.FormatInt(int64(l.Amount), 10) && part[4] == currency && part[6] == string(l.Kind) && l.matchesProject(part[7])
}

// matchesProject compares the project with the reference, which begins the rest of the text. PostgreSQL quotes it for its space.
func (l EntryLink) matchesProject(rest string) bool {
	if l.Kind != Storage {
		return l.Project == ids.Project{}
	}
	return strings.HasPrefix(rest, fmt.Sprintf(`"%d %s",`, l.At.Unix()+1, l.Project)) // it counts in the last second of its tick
}
