package slots

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/slots/place"
)

// HintSlots is the topic sent when slots have come free.
const HintSlots = "slots"

// Placement is what an allocation gets: slots of one node.
type Placement struct {
	Node   ids.Node
	Region string
	IDs    []uuid.UUID // sorted: locked in this order
	GPUs   []string    // device UUIDs, sorted
}

// market is what this process believes to be free. It may be wrong both ways:
// the claim has the last word, and a failed claim makes it look again.
type market struct {
	mu   sync.Mutex
	free map[offer][]place.Node
	read map[offer]time.Time
	// asked holds the slots of requests that are not over. A reading still shows
	// them as free, and whoever was given them again would wait, fail, read anew,
	// and be given the next one's: under load most requests would end so.
	asked map[uuid.UUID]struct{}
}

type offer struct{ sku, region string }

// believeFor is how long a reading of the free slots is used. What this process
// sells is taken out at once, so that only other processes make it wrong.
const believeFor = time.Second

// Place chooses n free slots. An empty region means any. They are nobody else's
// here until Placed says that the request is over.
func (s *Service) Place(ctx context.Context, sku, region string, n int, now time.Time) (Placement, error) {
	o := offer{sku, region}
	s.market.mu.Lock()
	defer s.market.mu.Unlock()
	chosen, ok := place.Choose(s.market.free[o], n)
	if now.Sub(s.market.read[o]) > believeFor || !ok {
		nodes, err := s.freeSlots(ctx, o)
		if err != nil {
			return Placement{}, err
		}
		s.market.put(o, nodes, now)
		if chosen, ok = place.Choose(s.market.free[o], n); !ok {
			// All that is left is asked for by requests that are not over. Some of
			// them may yet be refused, or be this very one sent twice: queue behind
			// them, and let the claim say.
			chosen, ok = place.Choose(nodes, n)
		}
	}
	if !ok {
		return Placement{}, errs.New(errs.SKUUnavailable, "no node has %s of %s free", counted(n), sku).
			Try("request fewer GPUs or another SKU, or wait for a release").With("sku", sku).With("gpus", n)
	}
	s.market.take(o, chosen)
	return slotsOf(chosen), nil
}

func counted(gpus int) string {
	if gpus == 1 {
		return "a GPU"
	}
	return fmt.Sprintf("%d GPUs", gpus)
}

// Refresh forgets what is believed of a SKU, after a claim has failed.
func (s *Service) Refresh(sku, region string) {
	s.market.mu.Lock()
	defer s.market.mu.Unlock()
	delete(s.market.read, offer{sku, region})
}

// Finished ends a request that Place has answered, whatever came of it. What it did
// not claim shows as free in the next reading.
func (s *Service) Finished(slots Placement) {
	s.market.mu.Lock()
	defer s.market.mu.Unlock()
	for _, id := range slots.IDs {
		delete(s.market.asked, id)
	}
}

// forget has the next placement read what is free.
func (m *market) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.read)
}

func (m *market) put(o offer, nodes []place.Node, now time.Time) {
	if m.free == nil {
		m.free, m.read, m.asked = map[offer][]place.Node{}, map[offer]time.Time{}, map[uuid.UUID]struct{}{}
	}
	free := slices.Clone(nodes)
	for i := range free {
		free[i].Free = slices.DeleteFunc(slices.Clone(free[i].Free), func(slot place.Slot) bool {
			_, asked := m.asked[slot.ID.UUID]
			return asked
		})
	}
	m.free[o], m.read[o] = free, now
}

func (m *market) take(o offer, chosen place.Node) {
	for _, slot := range chosen.Free {
		m.asked[slot.ID.UUID] = struct{}{}
	}
	for i, n := range m.free[o] {
		if n.ID == chosen.ID {
			m.free[o][i].Free = n.Free[min(len(chosen.Free), len(n.Free)):]
		}
	}
}

func slotsOf(n place.Node) Placement {
	s := Placement{Node: n.ID, Region: n.Region}
	for _, f := range n.Free {
		s.IDs, s.GPUs = append(s.IDs, f.ID.UUID), append(s.GPUs, f.GPU)
	}
	slices.SortFunc(s.IDs, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	slices.Sort(s.GPUs)
	return s
}

func (s *Service) freeSlots(ctx context.Context, o offer) ([]place.Node, error) {
	rows, err := s.DB.Query(ctx, selectFree, o.sku, o.region)
	if err != nil {
		return nil, fmt.Errorf("reading free slots: %w", err)
	}
	var nodes []place.Node
	var node place.Node
	var slot place.Slot
	_, err = pgx.ForEachRow(rows, []any{&node.ID, &node.Name, &node.Region, &slot.ID, &slot.GPU, &slot.Index}, func() error {
		if len(nodes) == 0 || nodes[len(nodes)-1].ID != node.ID {
			nodes = append(nodes, place.Node{ID: node.ID, Name: node.Name, Region: node.Region})
		}
		last := &nodes[len(nodes)-1]
		last.Free = append(last.Free, slot)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading free slots: %w", err)
	}
	return nodes, nil
}

// QueueClaim takes all the slots, or fails the caller's transaction.
func QueueClaim(b *pgx.Batch, id ids.Allocation, s Placement) {
	b.Queue(claimSlots, id, s.IDs).Exec(func(tag pgconn.CommandTag) error {
		if int(tag.RowsAffected()) < len(s.IDs) {
			return errs.New(errs.SKUUnavailable, "another request took these slots first").Try("send the request again")
		}
		return nil
	})
}

// QueueDirty marks an allocation's slots as no longer clean, from the moment that it
// is to go until a proof.
func QueueDirty(b *pgx.Batch, id ids.Allocation) { b.Queue(dirtySlots, id) }

// GPUsOf names the devices that an allocation holds or once held, sorted.
func (s *Service) GPUsOf(ctx context.Context, tx pgx.Tx, id ids.Allocation) ([]string, error) {
	rows, err := tx.Query(ctx, selectHeldGPUs, id)
	if err != nil {
		return nil, fmt.Errorf("reading devices of %s: %w", id, err)
	}
	gpus, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading devices of %s: %w", id, err)
	}
	return gpus, nil
}
