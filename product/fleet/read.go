package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Node is one node with its four state machines, for operators.
type Node struct {
	ID           ids.Node
	Name         string
	Spec         desired.Node // as applied
	Lifecycle    string
	Health       string
	Reachability string
	Cordoned     bool // by its spec or by a hold
	Message      string
	Version      int64
	UpdatedAt    time.Time
	AgentVersion string
	Fingerprint  string
	DrainedAt    *time.Time
	EvictAt      *time.Time // by when tenants leave a node that drains
	Slots        int
	Free         int
	Quarantined  int
	Held         int // slots that are claimed, or not proved clean yet
	CreatedAt    time.Time
	// RetiresAt is the announced end of the node in the fleet. Tenants read RetiresReason.
	RetiresAt     *time.Time
	RetiresReason string
	Holds         []Hold `db:"-"` // only for a single node
}

// Draining reports whether the allocations of the node must leave it.
func (n Node) Draining() bool { return n.EvictAt != nil }

// Occupancy is the fourth axis.
func (n Node) Occupancy() string {
	switch taken := n.Slots - n.Free - n.Quarantined; {
	case taken == 0:
		return "free"
	case n.Free == 0:
		return "full"
	default:
		return "partial"
	}
}

// Device is one GPU of a node and the slot that sells it.
type Device struct {
	Index      int
	UUID       string
	Model      string
	MemoryMiB  int64
	Health     string
	Reasons    []string
	Present    bool
	Slot       *uuid.UUID
	SlotStatus string
	SlotReason string
	Holder     *uuid.UUID // allocation
}

// Filter narrows a list of nodes; empty fields let everything pass.
type Filter struct {
	Region, SKU, Lifecycle, Health, Reachability string

	Part  string // of the name
	Sort  string // a column of Sorts, with a minus sign for the reverse; empty: by name
	After pg.Place
	Limit int
}

// Sorts has the columns by which lists of nodes sort.
var Sorts = pg.Sorting[Node]{
	Columns: map[string]pg.Column[Node]{
		"name":       byName,
		"sku":        {SQL: "n.sku", Type: "text", Key: func(n Node) string { return n.Spec.SKU }},
		"region":     {SQL: "n.region", Type: "text", Key: func(n Node) string { return n.Spec.Region }},
		"health":     {SQL: "n.health", Type: "text", Key: func(n Node) string { return n.Health }},
		"lifecycle":  {SQL: "n.lifecycle", Type: "text", Key: func(n Node) string { return n.Lifecycle }},
		"created_at": {SQL: "n.created_at", Type: "timestamptz", Key: func(n Node) string { return pg.TimeKey(&n.CreatedAt) }},
	},
	Default: "name",
	Unique:  byName,
}

var byName = pg.Column[Node]{SQL: "n.name", Type: "text", Key: func(n Node) string { return n.Name }}

// page returns the statement of a page after a place, and the place. It counts the slots of the page, not those of the
// fleet.
func page(sort string, after pg.Place) (statement string, at pg.Place) {
	condition, sorting, at := Sorts.Page(sort, after, 1, 2)
	return selectNodes + " WHERE n.id = ANY (ARRAY(" + selectPage + " AND " + condition + " " + sorting + " LIMIT $3)) GROUP BY n.id " + sorting, at
}

// Nodes reads a page of the fleet without retired nodes.
func (s *Service) Nodes(ctx context.Context, f Filter) ([]Node, error) {
	statement, after := page(f.Sort, f.After)
	rows, err := s.DB.Query(ctx, statement, after.Key, after.Row, f.Limit, f.Region, f.SKU, f.Lifecycle, f.Health, f.Reachability, f.Part)
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Node])
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return list, nil
}

// NodesOf reads these nodes, retired ones as well; those that are not known yet
// are left out.
func (s *Service) NodesOf(ctx context.Context, of []uuid.UUID) (map[uuid.UUID]Node, error) {
	rows, err := s.DB.Query(ctx, selectNodesOf, of)
	if err != nil {
		return nil, fmt.Errorf("reading nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Node])
	if err != nil {
		return nil, fmt.Errorf("reading nodes: %w", err)
	}
	all := make(map[uuid.UUID]Node, len(list))
	for _, n := range list {
		all[n.ID.UUID] = n
	}
	return all, nil
}

// node reads one node with its holds, by name. An active node takes precedence over a retired one of the
// same name.
func (s *Service) node(ctx context.Context, q pg.Queryer, name string) (Node, error) {
	rows, err := q.Query(ctx, selectNodes+` WHERE n.name = $1 GROUP BY n.id ORDER BY n.lifecycle = 'retired', n.id DESC LIMIT 1`, name)
	if err != nil {
		return Node{}, fmt.Errorf("reading node %s: %w", name, err)
	}
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Node])
	if errors.Is(err, pgx.ErrNoRows) {
		return Node{}, errs.New(errs.NotFound, "no node is named %s", name)
	}
	if err != nil {
		return Node{}, fmt.Errorf("reading node %s: %w", name, err)
	}
	holds, err := s.Holds(ctx, q, []ids.Node{n.ID})
	n.Holds = holds[n.ID]
	return n, err
}

// Node reads one node and its devices by name.
func (s *Service) Node(ctx context.Context, name string) (Node, []Device, error) {
	n, err := s.node(ctx, s.DB, name)
	if err != nil {
		return Node{}, nil, err
	}
	devices, err := s.devices(ctx, s.DB, n.ID)
	return n, devices, err
}

func (*Service) devices(ctx context.Context, q pg.Queryer, id ids.Node) ([]Device, error) {
	rows, err := q.Query(ctx, selectDevices, id)
	if err != nil {
		return nil, fmt.Errorf("reading devices of %s: %w", id, err)
	}
	devices, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Device])
	if err != nil {
		return nil, fmt.Errorf("reading devices of %s: %w", id, err)
	}
	return devices, nil
}

// FailureDomain names what fails together: the region, the zone and the rack of a node.
func (n Node) FailureDomain() string {
	return n.Spec.Region + "/" + cmp.Or(n.Spec.Zone, "-") + "/" + cmp.Or(n.Spec.Rack, "-")
}

// SSH describes the SSH server of a node.
type SSH struct {
	Address   string // with or without a port; by default the name of the node
	Simulated bool
	HostKeys  []string // as in authorized_keys; empty if the node has not reported any
}

// SSHOf returns the SSH server of a node.
func (s *Service) SSHOf(ctx context.Context, id ids.Node) (of SSH, err error) {
	var name string
	var spec desired.Node
	if err := s.DB.QueryRow(ctx, selectSSH, id).Scan(&name, &spec, &of.HostKeys); err != nil {
		return of, fmt.Errorf("reading the SSH server of %s: %w", id, err)
	}
	of.Address, of.Simulated = cmp.Or(spec.Address, name), spec.Onboarding == "simulated"
	return of, nil
}

// NamesOf returns the names of the nodes of the fleet by id.
func (s *Service) NamesOf(ctx context.Context) (map[uuid.UUID]string, error) {
	rows, err := s.DB.Query(ctx, selectNames)
	if err != nil {
		return nil, fmt.Errorf("reading the names of nodes: %w", err)
	}
	names := map[uuid.UUID]string{}
	var id uuid.UUID
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading the names of nodes: %w", err)
	}
	return names, nil
}
