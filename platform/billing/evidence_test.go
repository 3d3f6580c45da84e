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
	b.wait(time.Hour)
	b.charge()
	must(t, b.ledger.Seal(t.Context())) // the extract of the day begins after this seal
	for i := range 30 {                 // over both midnights, with passes at odd times
		b.wait(time.Duration(1+r.IntN(7000)) * time.Second)
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
		"kind":     func(e *billing.Evidence) { e.Ledger.Entries[usage(e)].Kind = ledger.TopUp },
		"seal":     func(e *billing.Evidence) { e.Ledger.Seals[0].Chain[0]++ },
		"price":    func(e *billing.Evidence) { e.Intervals[0].PriceMinor += 3600 },
		"interval": func(e *billing.Evidence) { e.Intervals = e.Intervals[1:] },
		"tick":     func(e *billing.Evidence) { e.Ticks = e.Ticks[1:] },
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
