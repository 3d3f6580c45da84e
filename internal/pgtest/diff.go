package pgtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Option changes what a Diff shows.
type Option func(*differ)

// Mask shows "…" for the values of columns with these names.
func Mask(columns ...string) Option {
	return func(d *differ) {
		for _, column := range columns {
			d.masked[column] = true
		}
	}
}

// MaskTimes shows every time as <time>, and MaskIDs every uuid as <id 1>,
// <id 2> …, numbered as they first appear in the diff.
func MaskTimes() Option { return func(d *differ) { d.times = true } }

// MaskIDs is described at MaskTimes.
func MaskIDs() Option { return func(d *differ) { d.ids = true } }

// Also adds tables that are not ours, such as "river.river_job".
func Also(tables ...string) Option {
	return func(d *differ) { d.also = append(d.also, tables...) }
}

// Without leaves tables out.
func Without(tables ...string) Option {
	return func(d *differ) { d.without = append(d.without, tables...) }
}

type differ struct {
	masked        map[string]bool
	times, ids    bool
	also, without []string
}

// row is one row as column → JSON; rows is a table by primary key.
type (
	row  map[string]json.RawMessage
	rows map[string]row
)

// Diff reads all rows of all our tables and returns a function that lists the changes since: "+" a
// new row, "-" a deleted one, "~" one with other values. It therefore also finds unintended writes.
// Each call compares with the same beginning.
func Diff(t testing.TB, db pg.Queryer, options ...Option) func() string {
	t.Helper()
	d := &differ{masked: map[string]bool{}}
	for _, option := range options {
		option(d)
	}
	before := d.read(t, db)
	return func() string {
		t.Helper()
		return d.compare(before, d.read(t, db))
	}
}

// everyTable leaves out partitions, whose rows the parent shows, and goose's own.
const everyTable = `
	SELECT c.oid::regclass::text,
		coalesce((SELECT array_agg(a.attname::text ORDER BY array_position(i.indkey::int2[], a.attnum))
			FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
			WHERE i.indrelid = c.oid AND i.indisprimary), '{}')
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
		AND (n.nspname = 'public' AND c.relname <> 'goose_db_version' OR n.nspname || '.' || c.relname = ANY ($1))
		AND NOT c.relname = ANY ($2)
	ORDER BY 1`

func (d *differ) read(t testing.TB, db pg.Queryer) map[string]rows {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	keys := map[string][]string{}
	listed, err := db.Query(ctx, everyTable, append([]string{}, d.also...), append([]string{}, d.without...))
	if err != nil {
		t.Fatalf("listing tables: %v", err)
	}
	var table string
	var key []string
	_, err = pgx.ForEachRow(listed, []any{&table, &key}, func() error {
		keys[table] = slices.Clone(key)
		return nil
	})
	if err != nil {
		t.Fatalf("listing tables: %v", err)
	}
	state := map[string]rows{}
	// A round trip for each table took most of the time, and one for all of them would lock all their partitions at once.
	for tables := range slices.Chunk(slices.Sorted(maps.Keys(keys)), 20) {
		b := &pgx.Batch{}
		for _, table := range tables {
			state[table] = rows{}
			b.Queue("SELECT to_jsonb(t) FROM " + table + " t").Query(func(found pgx.Rows) error { // the name is the catalogue's, quoted
				return state[table].collect(found, keys[table])
			})
		}
		if err := db.SendBatch(ctx, b).Close(); err != nil {
			t.Fatalf("reading the tables %v: %v", tables, err)
		}
	}
	return state
}

func (all rows) collect(found pgx.Rows, key []string) error {
	var text []byte
	_, err := pgx.ForEachRow(found, []any{&text}, func() error {
		var r row
		if err := json.Unmarshal(text, &r); err != nil {
			return err
		}
		name := nameOf(r, key)
		for _, twin := all[name]; twin; _, twin = all[name] {
			name += "'" // without a primary key, equal rows are distinguished by number
		}
		all[name] = r
		return nil
	})
	return err
}

// nameOf returns the name of a row in the diff: its primary key, or all columns.
func nameOf(r row, key []string) string {
	if len(key) == 0 {
		key = slices.Sorted(maps.Keys(r))
	}
	parts := make([]string, len(key))
	for i, column := range key {
		parts[i] = column + "=" + string(r[column])
	}
	return strings.Join(parts, " ")
}

func (d *differ) compare(before, after map[string]rows) string {
	var out bytes.Buffer
	for _, table := range union(before, after) {
		old, now := before[table], after[table]
		for _, name := range union(old, now) {
			was, had := old[name]
			is, has := now[name]
			switch {
			case !had:
				fmt.Fprintf(&out, "+ %s %s\n", table, d.show(is))
			case !has:
				fmt.Fprintf(&out, "- %s %s\n", table, d.show(was))
			default:
				d.showChange(&out, table, name, was, is)
			}
		}
	}
	return d.mask(out.String())
}

func union[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func (d *differ) show(r row) string {
	var parts []string
	for _, column := range slices.Sorted(maps.Keys(r)) {
		if value := string(r[column]); value != "null" {
			parts = append(parts, column+"="+d.value(column, r[column]))
		}
	}
	return strings.Join(parts, " ")
}

func (d *differ) showChange(out *bytes.Buffer, table, name string, was, is row) {
	var changes []string
	for _, column := range union(was, is) {
		if !bytes.Equal(was[column], is[column]) {
			changes = append(changes, fmt.Sprintf("%s: %s → %s", column, d.value(column, was[column]), d.value(column, is[column])))
		}
	}
	if len(changes) > 0 {
		fmt.Fprintf(out, "~ %s %s: %s\n", table, name, strings.Join(changes, ", "))
	}
}

func (d *differ) value(column string, v json.RawMessage) string {
	if d.masked[column] {
		return "…"
	}
	return string(v)
}

var (
	timeText = regexp.MustCompile(`"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(\+00:00|Z)"`)
	idText   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

func (d *differ) mask(text string) string {
	if d.times {
		text = timeText.ReplaceAllString(text, "<time>")
	}
	if d.ids {
		seen := map[string]int{}
		text = idText.ReplaceAllStringFunc(text, func(id string) string {
			if seen[id] == 0 {
				seen[id] = len(seen) + 1
			}
			return fmt.Sprintf("<id %d>", seen[id])
		})
	}
	return text
}
