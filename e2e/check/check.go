// Package check validates an installation that is at rest. It reads the database, the event streams
// and the simulated nodes, and never the API, so that a faulty server cannot hide its own fault. It
// changes nothing and imports no code that writes the tables.
package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrBlind means that the check itself does not work: it cannot read the data of the product. It is
// permanent, unlike the error of a server that is still starting, so Await does not wait for it.
var ErrBlind = errors.New("the check cannot read its input")

// Finding is one violation of an invariant.
type Finding struct{ Promise, What string }

func (f Finding) String() string { return f.Promise + ": " + f.What }

// Expect contains the expectations that the check cannot derive from the data.
type Expect struct {
	// Live are the names of the allocations that must be active. All others must be final.
	Live []string
	// Agents is the folder with one state directory for each simulated node.
	Agents string
	// Rested adds the rules that are true only after every window has been charged.
	Rested bool
}

// Database runs the SQL rules. Each rule is a statement that returns its violations as text.
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

// failed separates a statement that PostgreSQL rejects from a database that is unavailable. Errors
// of class 42 concern syntax, unknown names and rights; errors of class 22 concern values that an
// expression does not accept.
func failed(promise string, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code[:2] == "42" || refused.Code[:2] == "22") {
		return fmt.Errorf("%w: %s: %w", ErrBlind, promise, err)
	}
	return fmt.Errorf("%s: %w", promise, err)
}

// Await repeats the check until it returns no findings or ctx ends, and returns the last findings.
// A check that cannot read its data ends it at once.
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
