// Package meteringtest lets a test set the time of metering. It replaces the function of the database's
// clock, which needs the rights of the function's owner. The role of a server cannot do so.
package meteringtest

import (
	"context"
	"testing"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// A sequence, because setting it needs no commit: all connections see it at once.
// What is used in months without a partition goes into one for the rest.
const replace = `
	CREATE SEQUENCE IF NOT EXISTS test_clock MINVALUE -9223372036854775808;
	CREATE OR REPLACE FUNCTION metering_clock() RETURNS bigint LANGUAGE sql VOLATILE RETURN (SELECT last_value FROM test_clock);
	CREATE TABLE IF NOT EXISTS ledger_entries_rest PARTITION OF ledger_entries DEFAULT;
	GRANT SELECT ON test_clock TO PUBLIC`

// Clock is metering's in one database, which is a Clone of the test's own.
type Clock struct{ db pg.Queryer }

// New stops the clock at a second since 1970.
func New(t testing.TB, db pg.Queryer, second int64) Clock {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if _, err := db.Exec(ctx, replace); err != nil {
		t.Fatal(err)
	}
	c := Clock{db: db}
	if err := c.Set(ctx, second); err != nil {
		t.Fatal(err)
	}
	return c
}

// Set moves it, forward or back.
func (c Clock) Set(ctx context.Context, second int64) error {
	_, err := c.db.Exec(ctx, `SELECT setval('test_clock', $1)`, second)
	return err
}
