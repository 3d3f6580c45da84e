// Package check judges an installation that has come to rest, from outside: by
// what its database, its event stream and its hosts hold, never by what it says
// of itself. It changes nothing, and knows no table's code, only its truth.
package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrBlind means that the check itself does not work: it cannot read what the
// product writes. Time does not heal that, unlike a server that is starting, so
// nobody waits for it.
var ErrBlind = errors.New("the check cannot read what it judges")

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
		rows, _ := db.Query(ctx, r.broken, args...) // CollectRows returns its error, too
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, failed(r.promise, err)
		}
		for _, what := range list {
			found = append(found, Finding{r.promise, what})
		}
	}
	return found, nil
}

// failed tells a statement that PostgreSQL does not understand from a database that
// is away. Class 42 of its errors is about syntax, unknown names and rights; 22 is
// about values that an expression does not take.
func failed(promise string, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code[:2] == "42" || refused.Code[:2] == "22") {
		return fmt.Errorf("%w: %s: %w", ErrBlind, promise, err)
	}
	return fmt.Errorf("%s: %w", promise, err)
}

// Await judges until nothing is found, or ctx ends, and returns what was found
// last. A check that cannot read ends it at once.
func Await(ctx context.Context, every time.Duration, judge func() ([]Finding, error)) (found []Finding, err error) {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		found, err = judge()
		if err == nil && len(found) == 0 || errors.Is(err, ErrBlind) {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, err
		case <-again.C:
		}
	}
}
