package matrix_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// unwatched lists the tables that a denied request may write.
var unwatched = []string{
	"rate_limits", // counts every request, who ever sends it
	"log_streams", // an open stream of a log, whose row ends with the response
	"matrix_writes",
	"goose_db_version",
}

// unwatchedColumns change with every use of a token, also in a denied request.
var unwatchedColumns = []string{"last_used_at"}

// watch adds a trigger to every table of the database that records the writes.
func (w *fixture) watch() {
	w.sql(`CREATE UNLOGGED TABLE matrix_writes (seq bigint GENERATED ALWAYS AS IDENTITY, name text NOT NULL, verb text NOT NULL, n bigint NOT NULL)`)
	// The function runs as its owner, because the server's role may not write the record.
	w.sql(`CREATE FUNCTION matrix_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
		DECLARE
			n bigint;
		BEGIN
			IF TG_OP = 'INSERT' THEN
				SELECT count(*) INTO n FROM new_rows;
			ELSIF TG_OP = 'DELETE' THEN
				SELECT count(*) INTO n FROM old_rows;
			ELSE
				SELECT count(*) INTO n FROM (SELECT to_jsonb(r) - '{` + strings.Join(unwatchedColumns, ",") + `}'::text[] FROM new_rows r
					EXCEPT ALL SELECT to_jsonb(r) - '{` + strings.Join(unwatchedColumns, ",") + `}'::text[] FROM old_rows r) x;
			END IF;
			IF n > 0 THEN
				INSERT INTO matrix_writes (name, verb, n) VALUES (TG_TABLE_NAME, TG_OP, n);
			END IF;
			RETURN NULL;
		END $$`)
	for _, table := range w.tables() {
		for verb, rows := range map[string]string{
			"INSERT": "NEW TABLE AS new_rows", "DELETE": "OLD TABLE AS old_rows", "UPDATE": "OLD TABLE AS old_rows NEW TABLE AS new_rows",
		} {
			w.sql(fmt.Sprintf(`CREATE TRIGGER matrix_%s AFTER %s ON %s REFERENCING %s FOR EACH STATEMENT EXECUTE FUNCTION matrix_write()`,
				strings.ToLower(verb), verb, table, rows))
		}
	}
}

func (w *fixture) tables() []string {
	rows, err := w.db.Query(context.WithoutCancel(w.Context()), `
		SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname IN ('public', 'river') AND NOT c.relname = ANY ($1)`, unwatched)
	if err != nil {
		w.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// change counts the rows that one request has written, by table and verb.
type change map[string]int64

func (c change) String() string {
	words := []string{}
	for _, what := range sorted(c) {
		words = append(words, fmt.Sprintf("%s×%d", what, c[what]))
	}
	return strings.Join(words, " ")
}

func (c change) tables() (names []string) {
	for _, what := range sorted(c) {
		_, name, _ := strings.Cut(what, " ")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// changed returns the rows written since its last call.
func (w *fixture) changed() change {
	rows, err := w.db.Query(context.WithoutCancel(w.Context()), `
		WITH gone AS (DELETE FROM matrix_writes RETURNING verb, name, n)
		SELECT verb || ' ' || name, sum(n)::bigint FROM gone GROUP BY 1`)
	if err != nil {
		w.Fatal(err)
	}
	c := change{}
	var what string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&what, &n}, func() error { c[what] = n; return nil }); err != nil {
		w.Fatal(err)
	}
	return c
}
