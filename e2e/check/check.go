// Package check judges an installation that has come to rest, from outside: by
// what its database, its event stream and its hosts hold, never by what it says
// of itself. It changes nothing, and knows no table's code, only its truth.
package check

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Finding is one promise that is not kept, and by what.
type Finding struct{ Promise, What string }

func (f Finding) String() string { return f.Promise + ": " + f.What }

// Expect is what the judge cannot know by itself.
type Expect struct {
	// Live are the names of allocations that must be active; all others are over.
	Live []string
	// Agents is the folder with one state directory for each simulated host.
	Agents string
	// Rested also demands what is only true once every window has been charged.
	Rested bool
}

// Database judges by SQL. Each rule is a statement that returns its violations,
// in words.
func Database(ctx context.Context, db *pgx.Conn, e Expect) (found []Finding, err error) {
	live := e.Live
	if live == nil {
		live = []string{}
	}
	for _, r := range rules {
		if r.rested && !e.Rested {
			continue
		}
		args := []any{}
		if r.live {
			args = append(args, live)
		}
		rows, err := db.Query(ctx, r.broken, args...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.promise, err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.promise, err)
		}
		for _, what := range list {
			found = append(found, Finding{r.promise, what})
		}
	}
	return found, nil
}
