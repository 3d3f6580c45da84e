package slots

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Candidate is a node that sells a SKU, with all its slots, free or not.
type Candidate struct {
	Name, Region                  string
	Enrolled, Reachable, Cordoned bool
	Slots                         []Unit
}

// Unit is one slot, with its allocation if the caller may see it.
type Unit struct {
	Status string
	Holder *uuid.UUID
}

// Candidates reads the nodes that offer an SKU, by name. It is used to explain why a request was
// rejected; Place reads only free slots.
func (s *Service) Candidates(ctx context.Context, sku string) ([]Candidate, error) {
	rows, err := s.DB.Query(ctx, selectCandidates, sku)
	if err != nil {
		return nil, fmt.Errorf("reading who sells %s: %w", sku, err)
	}
	var all []Candidate
	var c Candidate
	var status *string
	var holder *uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&c.Name, &c.Region, &c.Enrolled, &c.Reachable, &c.Cordoned, &status, &holder}, func() error {
		if len(all) == 0 || all[len(all)-1].Name != c.Name {
			all = append(all, c)
		}
		if status != nil {
			last := &all[len(all)-1]
			last.Slots = append(last.Slots, Unit{*status, holder})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading who sells %s: %w", sku, err)
	}
	return all, nil
}
