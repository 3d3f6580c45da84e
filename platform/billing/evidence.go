package billing

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// Evidence contains the parts of the charges of one UTC day: the chained entries of the balance, the ticks, the intervals with
// the observations that opened and closed them, and the records of stored bytes. CheckEvidence verifies it without the server.
type Evidence struct {
	From      time.Time                 `json:"from"`
	To        time.Time                 `json:"to"`
	CreatedAt time.Time                 `json:"created_at"`
	Ledger    ledger.Extract            `json:"ledger"`
	Ticks     []metering.Tick           `json:"ticks"`
	Intervals []metering.Evidence       `json:"intervals"`
	Stored    []metering.StoredEvidence `json:"stored"`
}

// Evidence reads that of a day, as of one moment.
func (s *Statements) Evidence(ctx context.Context, tenant ids.Tenant, day time.Time) (e Evidence, err error) {
	from := day.UTC().Truncate(24 * time.Hour)
	e = Evidence{From: from, To: from.AddDate(0, 0, 1), CreatedAt: s.Clock.Now().UTC()}
	err = s.still(ctx, func(at *Statements) (err error) {
		if e.Ledger, err = at.Ledger.ExtractOf(ctx, at.DB, tenant, e.From, e.To); err != nil {
			return err
		}
		if e.Ticks, err = at.Metering.ChargedTicks(ctx, e.From, e.To); err != nil {
			return err
		}
		if e.Intervals, err = at.Metering.EvidenceOf(ctx, tenant, e.From, e.To); err != nil {
			return err
		}
		e.Stored, err = at.Metering.StoredEvidenceOf(ctx, tenant, e.From, e.To)
		return err
	})
	if errors.Is(err, ledger.ErrTooLong) {
		return e, errs.Invalid("day", "the day has more than %d entries", ledger.MostLinks).Try("gpuaas ledger verify on the server")
	}
	return e, err
}

// EvidenceFault is a difference in evidence.
type EvidenceFault struct {
	Entry      int64          `json:"entry,omitzero"`
	Allocation ids.Allocation `json:"allocation_id,omitzero"`
	Project    ids.Project    `json:"project_id,omitzero"` // of stored bytes
	Message    string         `json:"message"`
}

// Checked is the result of the check of evidence.
type Checked struct {
	Entries  int             `json:"entries"`  // of the day
	Charges  int             `json:"charges"`  // of them, of usage and of stored bytes
	Unsealed int64           `json:"unsealed"` // newer than the last seal
	Signed   int             `json:"signed_observations"`
	Unsigned int             `json:"unsigned_observations"` // of agents without a proof key
	Faults   []EvidenceFault `json:"faults"`
}

// CheckEvidence verifies evidence without a database: the chain of the entries, each charge against the intervals and the
// records of stored bytes, and the signatures of the nodes. Whether a key is that of the node, and whether the last seal is the stored one, it cannot know:
// compare them with an earlier document.
func CheckEvidence(e Evidence) Checked {
	c := Checked{Faults: []EvidenceFault{}}
	chain, open := e.Ledger.Verify()
	c.Unsealed = open
	for _, f := range chain {
		c.Faults = append(c.Faults, EvidenceFault{Entry: f.UpTo, Message: "the chain of the entries is broken: " + string(f.Wrong)})
	}
	c.charges(e)
	for _, i := range e.Intervals {
		for _, seen := range []json.RawMessage{i.OpenedObservation, i.ClosedObservation} {
			c.observation(i, seen)
		}
	}
	return c
}

// charge names an allocation or the stored bytes of a project, in one tick.
type charge struct {
	tick       int64
	allocation ids.Allocation
	project    ids.Project
}

// charges compares the entries of the day with the amounts that follow from the intervals and records, in both directions.
func (c *Checked) charges(e Evidence) {
	due := c.due(e)
	booked, entry := map[charge]money.Minor{}, map[charge]int64{}
	for _, l := range e.Ledger.Entries {
		if l.At.Before(e.From) || !l.At.Before(e.To) {
			continue
		}
		c.Entries++
		if l.Kind != ledger.Usage && l.Kind != ledger.Storage {
			continue
		}
		c.Charges++
		of := charge{l.At.Unix() + 1, l.Allocation, l.Project} // booked in the last second of its tick
		booked[of] -= l.Amount                                 // an allocation with two prices in one tick has two entries
		entry[of] = l.ID
		if _, exists := due[of]; !exists {
			due[of] = 0
		}
	}
	for of, n := range due {
		if booked[of] != n {
			c.Faults = append(c.Faults, EvidenceFault{Entry: entry[of], Allocation: of.allocation, Project: of.project, Message: fmt.Sprintf(
				"the tick up to %s charges %d, and the intervals amount to %d", time.Unix(of.tick, 0).UTC().Format(time.RFC3339), booked[of], n)})
		}
	}
}

// due returns the amounts that follow from the intervals and the records of stored bytes.
func (c *Checked) due(e Evidence) map[charge]money.Minor {
	due := map[charge]money.Minor{}
	add := func(of charge, n money.Minor) {
		if n != 0 {
			due[of] += n
		}
	}
	for _, t := range e.Ticks {
		for _, i := range e.Intervals {
			add(charge{tick: t.To.Unix(), allocation: i.Allocation}, i.Due(t))
		}
		for _, r := range e.Stored {
			n, err := r.Due(t)
			if err != nil {
				c.Faults = append(c.Faults, EvidenceFault{Project: r.Project, Message: err.Error()})
			}
			add(charge{tick: t.To.Unix(), project: r.Project}, n)
		}
	}
	for n, r := range e.Stored {
		if n > 0 && e.Stored[n-1].Project == r.Project && !r.Continues(e.Stored[n-1]) {
			c.Faults = append(c.Faults, EvidenceFault{Project: r.Project, Message: fmt.Sprintf("the record %s does not continue the one before it", r.ID)})
		}
	}
	return due
}

// observation verifies the signature of the node under the report behind a change of an interval.
func (c *Checked) observation(i metering.Evidence, text json.RawMessage) {
	if len(text) == 0 || string(text) == "null" {
		return // a price change or a release has none
	}
	var seen metering.Observation
	var origin struct{ Body, Signature, Key []byte }
	var body struct {
		Node     ids.Node `json:"node_id"`
		Boot     int64    `json:"boot"`
		Sequence int64    `json:"sequence"`
	}
	fault := ""
	switch err := json.Unmarshal(text, &seen); {
	case err != nil:
		fault = "the observation is not readable"
	case len(seen.Origin) == 0:
		c.Unsigned++
		return
	case json.Unmarshal(seen.Origin, &origin) != nil, json.Unmarshal(origin.Body, &body) != nil, len(origin.Key) != ed25519.PublicKeySize:
		fault = "the signature of the observation is not readable"
	case !ed25519.Verify(origin.Key, origin.Body, origin.Signature):
		fault = "the node has not signed the observation"
	case body.Node != seen.Node || body.Boot > seen.Boot || body.Boot == seen.Boot && body.Sequence > seen.Sequence:
		fault = "the signature is of another report"
	}
	if fault != "" {
		c.Faults = append(c.Faults, EvidenceFault{Allocation: i.Allocation, Message: fault})
		return
	}
	c.Signed++
}
