package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Record is a row for display.
type Record struct {
	ID                    uuid.UUID
	At                    time.Time
	Tenant                ids.Tenant // zero: what belongs to no tenant
	Actor, Action, Target string
	CorrelationID         string
	Before, After         json.RawMessage // nil where there was or is nothing
	Client
}

// Place is the cursor of the last row of a page.
type Place struct {
	At time.Time
	ID uuid.UUID
}

// Place is the record's own, for the page after it.
func (r Record) Place() Place { return Place{At: r.At, ID: r.ID} }

// Query selects records. Zero fields select all.
type Query struct {
	Tenant                ids.Tenant
	Actor, Action, Target string    // Action ends in a dot: all that begin so; Target is a resource name or an id
	From, To              time.Time // From inclusive, To exclusive
	After                 Place     // older than this one
	Limit                 int
}

// Search returns one page, the newest first.
func (s *Service) Search(ctx context.Context, q Query) ([]Record, error) {
	sql, args := q.statement()
	rows, err := s.DB.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("searching audit records: %w", err)
	}
	records, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Record])
	if err != nil {
		return nil, fmt.Errorf("searching audit records: %w", err)
	}
	return records, nil
}

// exportPage is small enough for a short statement and large enough that the
// round trips between pages do not show.
const exportPage = 500

// Export calls each for all records of the query, the newest first. It reads one page at a time, so a
// slow reader blocks neither a connection nor a vacuum. An error of each ends the export.
func (s *Service) Export(ctx context.Context, q Query, each func(Record) error) error {
	left := q.Limit
	for {
		q.Limit = exportPage
		if left > 0 {
			q.Limit = min(left, exportPage)
		}
		page, err := s.Search(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := each(r); err != nil {
				return err
			}
		}
		if left -= len(page); len(page) < q.Limit || left == 0 {
			return nil
		}
		q.After = page[len(page)-1].Place()
	}
}

// statement has only the conditions that matter: one with all of them could be
// planned for none of the indexes.
func (q Query) statement() (sql string, args []any) {
	var text strings.Builder
	text.WriteString(selectRecords)
	for _, c := range q.conditions() {
		if !c.matters {
			continue
		}
		joint := " AND "
		if len(args) == 0 {
			joint = " WHERE "
		}
		numbers := make([]any, len(c.values))
		for i, v := range c.values {
			args = append(args, v)
			numbers[i] = len(args)
		}
		fmt.Fprintf(&text, joint+c.sql, numbers...)
	}
	args = append(args, q.Limit)
	fmt.Fprintf(&text, newestFirst, len(args))
	return text.String(), args
}

type condition struct {
	matters bool
	sql     string
	values  []any
}

func (q Query) conditions() []condition {
	action, target, about := ofAction, onTarget, q.Target
	if strings.HasSuffix(q.Action, ".") {
		action = ofActions
	}
	if id, err := uuid.Parse(q.Target); err == nil {
		target, about = onResource, id.String()
	}
	return []condition{
		{q.Tenant != ids.Tenant{}, ofTenant, []any{q.Tenant.UUID}},
		{q.Actor != "", byActor, []any{q.Actor}},
		{q.Action != "", action, []any{q.Action}},
		{q.Target != "", target, []any{about}},
		{!q.From.IsZero(), from, []any{q.From}},
		{!q.To.IsZero(), until, []any{q.To}},
		{q.After != Place{}, olderThan, []any{q.After.At, q.After.ID}},
	}
}
