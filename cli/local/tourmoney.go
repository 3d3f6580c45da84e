package local

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/money"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// topped is the amount of the tour's top-up.
const topped = 2500

// topUp pays on the page of the payment double and waits for the credit.
func (t *tour) topUp(ctx context.Context) error {
	if _, err := paymentProvider(t.app); err != nil {
		if errs.CodeOf(err) != errs.NotFound {
			return err
		}
		t.print("No development payment provider runs here, so the tour makes no payment.\n")
		return nil
	}
	said, err := t.run(ctx, "balance", "top-up", "25", "--no-browser", "--no-wait", "-o", "name")
	if err != nil {
		return err
	}
	id, _, ok := output.IdOf(strings.TrimSpace(said))
	if !ok {
		return fmt.Errorf("balance top-up -o name printed %q, no payment", said)
	}
	if _, err := t.run(ctx, "dev", "payments", "pay", strings.TrimSpace(said)); err != nil {
		return err
	}
	var p oapi.PaymentSession
	if err := t.until(ctx, "the payment is credited, and the balance has grown by it", func(ctx context.Context) (bool, string, error) {
		got, err := money.Payment(ctx, t.api, id)
		if p = got.Value; err != nil || p.Status != oapi.PaymentStatusCredited {
			return false, "it is " + string(p.Status), err
		}
		return t.grown(ctx)
	}); err != nil {
		return err
	}
	if _, err := t.run(ctx, "ledger", "list", "--kind", "topup", "--from", "1h"); err != nil {
		return err
	}
	entries, err := t.entries(ctx, "--kind", "topup")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(entries, func(e oapi.LedgerEntry) bool { return e.TransferId == output.ValueOrZero(p.TransferId) })
	if i < 0 || entries[i].AmountMinor != topped {
		return fmt.Errorf("the ledger has no transfer %s of %s", money.IdCell(p.TransferId), output.Amount(p.Amount))
	}
	t.printChecked("the ledger has it once, as entry %d", entries[i].Id)
	return nil
}

// grown checks whether the balance has increased by the payment. If other allocations are charged
// at the same time, only the payment itself can be checked.
func (t *tour) grown(ctx context.Context) (bool, string, error) {
	now, err := t.api.Balance(ctx)
	if err != nil {
		return false, "", err
	}
	grew := now.Value.AmountMinor - t.before.AmountMinor
	if t.quiet && grew != topped {
		return false, "the balance grew by " + output.ParseAmount(now.Value.Currency, grew), nil
	}
	t.before = now.Value
	return true, "", nil
}

// books follows the charge from the ledger to the statement.
func (t *tour) books(ctx context.Context, cost oapi.Money) error {
	if _, err := t.run(ctx, "usage", "intervals", "--allocation", t.name); err != nil {
		return err
	}
	entries, err := t.entries(ctx, "--kind", "usage", "--allocation", t.mine.Id.String())
	if err != nil {
		return err
	}
	var sum int64
	transfers := map[uuid.UUID]bool{}
	for _, e := range entries {
		sum -= e.AmountMinor
		transfers[e.TransferId] = true
	}
	if sum != cost.AmountMinor || len(transfers) != len(entries) {
		return fmt.Errorf("%d entries of %d transfers sum to %s, not to %s", len(entries), len(transfers), output.ParseAmount(cost.Currency, sum), output.Amount(cost))
	}
	t.printChecked("the ledger has charged %s for it, in %s", output.Amount(cost), output.CountOf(len(entries), "transfer"))
	if _, err := t.run(ctx, "statement", "list"); err != nil {
		return err
	}
	return t.until(ctx, "the statement adds up to the balance", t.addsUp)
}

// addsUp compares the lines of this month's statement with its closing balance, and that with the
// balance.
func (t *tour) addsUp(ctx context.Context) (bool, string, error) {
	text, err := t.quietly(ctx, "statement", "show", "-o", "json")
	if err != nil {
		return false, "", err
	}
	var s oapi.Statement
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return false, "", fmt.Errorf("statement show -o json is not the API's JSON: %w", err)
	}
	lines := s.OpeningMinor
	for _, m := range s.Movements {
		lines += m.AmountMinor
	}
	for _, u := range s.Usage {
		lines -= u.GrossMinor
	}
	now, err := t.api.Balance(ctx)
	if err != nil {
		return false, "", err
	}
	saw := fmt.Sprintf("the sum of its lines is %s, its closing balance %s, the balance %s", output.ParseAmount(s.Currency, lines), output.ParseAmount(s.Currency, s.ClosingMinor), output.ParseAmount(s.Currency, now.Value.AmountMinor))
	return lines == s.ClosingMinor && s.ClosingMinor == now.Value.AmountMinor, saw, nil
}

// entries are those of the ledger in the last hour: a tour at the end of a month
// has some in each.
func (t *tour) entries(ctx context.Context, flags ...string) ([]oapi.LedgerEntry, error) {
	args := append([]string{"ledger", "list", "--from", "1h", "--limit", "0", "-o", "json"}, flags...)
	text, err := t.quietly(ctx, args...)
	if err != nil {
		return nil, err
	}
	var l oapi.LedgerList
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return nil, fmt.Errorf("ledger list -o json is not the API's JSON: %w", err)
	}
	return l.Items, nil
}
