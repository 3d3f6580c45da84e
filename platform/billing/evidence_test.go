package billing_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// observed opens an interval by an observation that the node has signed.
func (b *books) observed(node ids.Node, key ed25519.PrivateKey) {
	body := fmt.Appendf(nil, `{"of":"report","node_id":%q,"boot":3,"sequence":7,"nonce":"n"}`, node)
	origin, err := json.Marshal(map[string][]byte{"body": body, "signature": ed25519.Sign(key, body), "key": key.Public().(ed25519.PublicKey)})
	must(b.T, err)
	i := metering.Interval{
		Allocation: ids.New[ids.Allocation](), Tenant: b.tenant, Project: b.projects[0], User: ids.New[ids.User](), SKU: "h100", GPUs: 2, PriceMinor: 289, Currency: "EUR",
	}
	batch := &pgx.Batch{}
	metering.QueueOpen(batch, i, metering.ObservedReady, &metering.Observation{Node: node, Fence: 1, Boot: 3, Sequence: 9, Origin: origin})
	must(b.T, b.db.SendBatch(b.Context(), batch).Close())
	b.open = append(b.open, i.Allocation)
}

// price sets the price of stored bytes.
func (b *books) price(minor money.Minor) {
	must(b.T, pgx.BeginFunc(b.Context(), b.db, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		metering.QueueStoragePrice(batch, metering.StoragePrice{Class: "s", PriceMinor: minor, FreeBytes: 1 << 20, Currency: "EUR"})
		return tx.SendBatch(b.Context(), batch).Close()
	}))
}

func (b *books) store(p ids.Project, bytes int64) {
	batch := &pgx.Batch{}
	metering.QueueStored(batch, metering.Stored{Tenant: b.tenant, Project: p, Bytes: bytes})
	must(b.T, b.db.SendBatch(b.Context(), batch).Close())
}

// Evidence of a day is verified without the database, and every change of it is found.
func TestEvidenceIsVerifiedOffline(t *testing.T) {
	t.Parallel()
	day := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	b := openBooks(t, day.Add(-5*time.Hour))
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	node := ids.New[ids.Node]()
	b.post(ledger.TestCredit, "promotions", 1e9)
	r := rand.New(rand.NewPCG(1, 2))
	b.begin(r)
	b.observed(node, key)
	b.price(1_000_000)
	b.store(b.projects[0], 1<<40)
	b.wait(time.Hour)
	b.charge()
	must(t, b.ledger.Seal(t.Context())) // the extract of the day begins after this seal
	for i := range 30 {                 // over both midnights, with passes at odd times
		b.wait(time.Duration(1+r.IntN(7000)) * time.Second)
		if i%4 == 0 {
			b.store(b.projects[i/4%2], 1+r.Int64N(1<<38))
		}
		if i == 15 {
			b.price(2_000_000)
		}
		switch i % 5 {
		case 1:
			b.begin(r)
		case 3:
			b.end(0)
		default:
			b.charge()
		}
		if i%10 == 9 {
			must(t, b.ledger.Seal(t.Context()))
		}
	}
	b.charge()
	must(t, b.ledger.Seal(t.Context()))

	e, err := b.Evidence(b.ctx, b.tenant, day.Add(time.Hour))
	must(t, err)
	text, err := json.Marshal(e)
	must(t, err)
	read := func() (e billing.Evidence) { must(t, json.Unmarshal(text, &e)); return e }
	c := billing.CheckEvidence(read())
	if len(c.Faults) > 0 || c.Charges < 5 || c.Signed != 1 || c.Unsealed != 0 || len(e.Ledger.Seals) == 0 || e.Ledger.Before.UpTo == 0 {
		t.Fatalf("%+v, %d seals after %d", c, len(e.Ledger.Seals), e.Ledger.Before.UpTo)
	}
	usage := func(e *billing.Evidence) int {
		for i, l := range e.Ledger.Entries {
			if l.Kind == ledger.Usage && !l.At.Before(e.From) && l.At.Before(e.To) {
				return i
			}
		}
		t.Fatal("no charge in the day")
		return 0
	}
	stored := func(e *billing.Evidence) int {
		for i, l := range e.Ledger.Entries {
			if l.Kind == ledger.Storage && !l.At.Before(e.From) && l.At.Before(e.To) {
				return i
			}
		}
		t.Fatal("no charge of stored bytes in the day")
		return 0
	}
	owing := func(e *billing.Evidence) int {
		for i, r := range e.Stored {
			if r.PriceMinor > 0 && i+1 < len(e.Stored) && e.Stored[i+1].Project == r.Project {
				return i
			}
		}
		t.Fatal("no record of stored bytes with a successor")
		return 0
	}
	signed := func(e *billing.Evidence) int {
		for i := range e.Intervals {
			if len(e.Intervals[i].OpenedObservation) > 0 && string(e.Intervals[i].OpenedObservation) != "null" {
				return i
			}
		}
		t.Fatal("no observation")
		return 0
	}
	for name, change := range map[string]func(e *billing.Evidence){
		"amount": func(e *billing.Evidence) { e.Ledger.Entries[usage(e)].Amount-- },
		"text":   func(e *billing.Evidence) { e.Ledger.Entries[usage(e)].Text += " " },
		"entry": func(e *billing.Evidence) {
			i := usage(e)
			e.Ledger.Entries = append(e.Ledger.Entries[:i], e.Ledger.Entries[i+1:]...)
		},
		"kind":           func(e *billing.Evidence) { e.Ledger.Entries[usage(e)].Kind = ledger.TopUp },
		"seal":           func(e *billing.Evidence) { e.Ledger.Seals[0].Chain[0]++ },
		"price":          func(e *billing.Evidence) { e.Intervals[0].PriceMinor += 3600 },
		"interval":       func(e *billing.Evidence) { e.Intervals = e.Intervals[1:] },
		"tick":           func(e *billing.Evidence) { e.Ticks = e.Ticks[1:] },
		"stored amount":  func(e *billing.Evidence) { e.Ledger.Entries[stored(e)].Amount-- },
		"project":        func(e *billing.Evidence) { e.Ledger.Entries[stored(e)].Project = ids.New[ids.Project]() },
		"stored price":   func(e *billing.Evidence) { e.Stored[owing(e)].PriceMinor++ },
		"stored bytes":   func(e *billing.Evidence) { e.Stored[owing(e)].Bytes += 1 << 30 },
		"owed amount":    func(e *billing.Evidence) { e.Stored[owing(e)].Owed = "1" },
		"no amount":      func(e *billing.Evidence) { e.Stored[owing(e)].OwedBefore = "" },
		"stored record":  func(e *billing.Evidence) { i := owing(e); e.Stored = append(e.Stored[:i], e.Stored[i+1:]...) },
		"stored records": func(e *billing.Evidence) { e.Stored = nil },
		"another node": func(e *billing.Evidence) {
			i := signed(e)
			e.Intervals[i].OpenedObservation = withNode(t, e.Intervals[i].OpenedObservation)
		},
	} {
		e := read()
		change(&e)
		if c := billing.CheckEvidence(e); len(c.Faults) == 0 {
			t.Errorf("a changed %s is not found", name)
		}
	}
}

func withNode(t *testing.T, text json.RawMessage) json.RawMessage {
	t.Helper()
	var o metering.Observation
	must(t, json.Unmarshal(text, &o))
	o.Node = ids.New[ids.Node]()
	changed, err := json.Marshal(o)
	must(t, err)
	return changed
}
