package slots

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/slots/place"
)

// HintSlots is the topic of the hint that slots are free again.
const HintSlots = "slots"

// Placement is the result of a placement: slots of one node.
type Placement struct {
	Node   ids.Node
	Region string
	IDs    []uuid.UUID // sorted, and locked in this sequence
	GPUs   []string    // device UUIDs, sorted
}

// market is this process's cache of free slots. It may be wrong in both directions: only the claim
// decides, and a failed claim makes the cache read again.
type market struct {
	mu   sync.Mutex
	free map[offer][]place.Node
	read map[offer]time.Time
	// requested contains the slots of requests in progress. A read still returns them as free. A second request for them
	// would wait for the lock, fail, read again and choose the next claimed slots; under load most requests would end so.
	requested map[uuid.UUID]struct{}
}

type offer struct {
	sku, region string
	mounts      bool
}

// Wanted describes the slots of a request.
type Wanted struct {
	SKU    string
	Region string // empty: any
	GPUs   int
	Mounts bool // on a node that can mount stored objects
}

func (w Wanted) offer() offer { return offer{w.SKU, w.Region, w.Mounts} }

// readingFor is the maximum age of the cached free slots. Placements of this process are removed from
// the cache at once, so only other processes make it wrong.
const readingFor = time.Second

// Place chooses free slots. No other request of this process receives them until Finished reports that the request has
// ended.
func (s *Service) Place(ctx context.Context, w Wanted, now time.Time) (Placement, error) {
	o, n, rules := w.offer(), w.GPUs, s.Rules()
	s.market.mu.Lock()
	defer s.market.mu.Unlock()
	// Try the cache first: a cached choice needs no query.
	chosen, ok := place.Choose(s.market.free[o], n, rules)
	if now.Sub(s.market.read[o]) > readingFor || !ok {
		nodes, err := s.freeSlots(ctx, o)
		if err != nil {
			return Placement{}, err
		}
		s.market.put(o, nodes, now)
		if chosen, ok = place.Choose(s.market.free[o], n, rules); !ok {
			// All remaining slots are chosen by requests in progress. Some of these may still be
			// rejected, or be duplicates of this request. Return the same slots: the request then waits
			// for the lock, and the claim decides.
			chosen, ok = place.Choose(nodes, n, rules)
		}
	}
	if !ok {
		rejected, err := s.unavailable(ctx, w)
		return Placement{}, cmp.Or(err, error(rejected))
	}
	s.market.reserve(o, chosen)
	return slotsOf(chosen), nil
}

// unavailable returns the rejection of a request that no node fits. Where only the mounts exclude nodes, it names what
// these lack.
func (s *Service) unavailable(ctx context.Context, w Wanted) (*errs.Error, error) {
	rejected := errs.New(errs.SKUUnavailable, "no node has %s of %s free", counted(w.GPUs), w.SKU).
		Try("request fewer GPUs or another SKU, or wait for a release").With("sku", w.SKU).With("gpus", w.GPUs)
	if !w.Mounts {
		return rejected, nil
	}
	w.Mounts = false
	nodes, err := s.freeSlots(ctx, w.offer())
	if _, fits := place.Choose(nodes, w.GPUs, s.Rules()); err != nil || !fits {
		return rejected, err
	}
	missing, err := s.missing(ctx, nodes)
	return errs.New(errs.SKUUnavailable, "no node with %s of %s free can mount stored objects: missing %s", counted(w.GPUs), w.SKU, missing).
		At("mounts").Try("request it without mounts, or let an operator install what is missing").With("sku", w.SKU).With("gpus", w.GPUs), err
}

// missing names what the nodes lack for mounts.
func (s *Service) missing(ctx context.Context, nodes []place.Node) (string, error) {
	ids := make([]uuid.UUID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID.UUID
	}
	names, err := pg.List(ctx, s.DB, "what nodes lack for mounts", selectMissing, pgx.RowTo[string], ids)
	return cmp.Or(strings.Join(names, ", "), "a newer agent"), err
}

// Unfit returns the rejection that Place would return now, or nil if a node has the slots. It reserves nothing.
func (s *Service) Unfit(ctx context.Context, w Wanted) (*errs.Error, error) {
	nodes, err := s.freeSlots(ctx, w.offer())
	if err != nil {
		return nil, err
	}
	var rejected *errs.Error
	if _, fits := place.Choose(nodes, w.GPUs, s.Rules()); !fits {
		rejected, err = s.unavailable(ctx, w)
	}
	return rejected, err
}

func counted(gpus int) string {
	if gpus == 1 {
		return "a GPU"
	}
	return fmt.Sprintf("%d GPUs", gpus)
}

// Refresh drops the cached slots of an offer after a failed claim.
func (s *Service) Refresh(w Wanted) {
	s.market.mu.Lock()
	defer s.market.mu.Unlock()
	delete(s.market.read, w.offer())
}

// Finished ends a request that Place has answered, with any result. The next read returns slots that
// it did not claim as free again.
func (s *Service) Finished(slots Placement) {
	s.market.mu.Lock()
	defer s.market.mu.Unlock()
	for _, id := range slots.IDs {
		delete(s.market.requested, id)
	}
}

// invalidate makes the next placement read the free slots again.
func (m *market) invalidate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.read)
}

// put stores a reading without the slots of requests in progress. It copies the nodes, because the caller may choose
// from the complete reading afterwards.
func (m *market) put(o offer, nodes []place.Node, now time.Time) {
	if m.free == nil {
		m.free, m.read, m.requested = map[offer][]place.Node{}, map[offer]time.Time{}, map[uuid.UUID]struct{}{}
	}
	free := slices.Clone(nodes)
	for i := range free {
		free[i].Free = slices.DeleteFunc(slices.Clone(free[i].Free), func(slot place.Slot) bool {
			_, asked := m.requested[slot.ID.UUID]
			return asked
		})
	}
	m.free[o], m.read[o] = free, now
}

// reserve removes chosen slots from the cache until their request has ended, so that concurrent
// requests of this process choose different slots.
func (m *market) reserve(o offer, chosen place.Node) {
	for _, slot := range chosen.Free {
		m.requested[slot.ID.UUID] = struct{}{}
	}
	for i, n := range m.free[o] {
		if n.ID == chosen.ID {
			m.free[o][i].Free = n.Free[min(len(chosen.Free), len(n.Free)):]
		}
	}
}

// slotsOf returns the placement on a node. The slot ids are sorted: all claims lock slots in the
// same sequence and therefore never deadlock.
func slotsOf(n place.Node) Placement {
	s := Placement{Node: n.ID, Region: n.Region}
	for _, f := range n.Free {
		s.IDs, s.GPUs = append(s.IDs, f.ID.UUID), append(s.GPUs, f.GPU)
	}
	slices.SortFunc(s.IDs, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	slices.Sort(s.GPUs)
	return s
}

// freeSlots reads the free slots of an offer, grouped by node. It locks nothing, so the result may
// be outdated when the claim runs.
func (s *Service) freeSlots(ctx context.Context, o offer) ([]place.Node, error) {
	rows, err := s.DB.Query(ctx, selectFree, o.sku, o.region, o.mounts)
	if err != nil {
		return nil, fmt.Errorf("reading free slots: %w", err)
	}
	var nodes []place.Node
	var node place.Node
	var slot place.Slot
	_, err = pgx.ForEachRow(rows, []any{&node.ID, &node.Name, &node.Region, &node.Failures, &slot.ID, &slot.GPU, &slot.Index}, func() error {
		if len(nodes) == 0 || nodes[len(nodes)-1].ID != node.ID {
			nodes = append(nodes, place.Node{ID: node.ID, Name: node.Name, Region: node.Region, Failures: node.Failures})
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

// QueueClaim claims all the slots, or fails the caller's transaction.
func QueueClaim(b *pgx.Batch, id ids.Allocation, s Placement) {
	b.Queue(claimSlots, id, s.IDs).Exec(func(tag pgconn.CommandTag) error {
		if int(tag.RowsAffected()) < len(s.IDs) {
			return errs.New(errs.SKUUnavailable, "another request took these slots first").Try("send the request again")
		}
		return nil
	})
}

// QueueDirty marks the slots of an allocation as dirty when its release is requested. They stay dirty until a proof,
// because a task of the tenant may still run on them.
func QueueDirty(b *pgx.Batch, id ids.Allocation) { b.Queue(dirtySlots, id) }

// GPUsOf returns the devices that an allocation has or had, sorted. The release of a
// deleted object names the devices also after its claims have ended.
func (s *Service) GPUsOf(ctx context.Context, q pg.Queryer, id ids.Allocation) ([]string, error) {
	rows, err := q.Query(ctx, selectHeldGPUs, id)
	if err != nil {
		return nil, fmt.Errorf("reading devices of %s: %w", id, err)
	}
	gpus, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading devices of %s: %w", id, err)
	}
	return gpus, nil
}
