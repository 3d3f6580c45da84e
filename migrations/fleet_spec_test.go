package migrations_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// before returns a new database with the migrations up to a version, and the provider that runs the later ones.
func before(t *testing.T, version int64) (*pgxpool.Pool, *goose.Provider) {
	t.Helper()
	cluster := pgtest.Clone(t)
	name := fmt.Sprintf("history_%d", time.Now().UnixNano())
	if _, err := cluster.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	config := cluster.Config().Copy()
	config.ConnConfig.Database = name
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	steps, err := goose.NewProvider(goose.DialectPostgres, stdlib.OpenDBFromPool(db), os.DirFS("."), goose.WithExcludeNames([]string{"roles.sql", "grants.sql"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := steps.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	return db, steps
}

// The specs of nodes contain the applied values of the columns. Only fields that had no column are those of the desired
// object.
func TestNodesKeepTheirAppliedSpec(t *testing.T) {
	t.Parallel()
	db, steps := before(t, 240)
	const one, other = "c0000000-0000-0000-0000-000000000001", "c0000000-0000-0000-0000-000000000002"
	for _, sql := range []string{
		`INSERT INTO nodes (id, name, sku, region, onboarding, expected_gpus, lifecycle, hardware, cordoned, address)
			VALUES ('` + one + `', 'one', 'h100', 'eu-1', 'manual', 8, 'active', '', true, 'one.example:22'), ('` + other + `', 'other', 't4', 'eu-2', 'simulated', 4, 'retired', 't4-4', false, '')`,
		`INSERT INTO desired_objects (uid, kind, scope, name, labels, annotations, spec, spec_hash, owner)
			VALUES ('` + one + `', 'Node', '', 'one', '{}', '{}', '{"sku": "h100", "gpus": 2, "serials": ["a"], "slicing": "whole_gpu", "address": "new.example"}', '', 'api')`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := steps.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		one:   `{"sku": "h100", "region": "eu-1", "onboarding": "manual", "gpus": 8, "serials": ["a"], "slicing": "whole_gpu", "hardware": "", "cordoned": true, "address": "one.example:22"}`,
		other: `{"sku": "t4", "region": "eu-2", "onboarding": "simulated", "gpus": 4, "slicing": "whole_gpu", "hardware": "t4-4", "cordoned": false}`,
	} {
		var spec, columns map[string]any
		if err := db.QueryRow(t.Context(), `SELECT spec, jsonb_build_object('sku', sku, 'region', region, 'cordoned', cordoned) FROM nodes WHERE id = $1`, id).Scan(&spec, &columns); err != nil {
			t.Fatal(err)
		}
		var wanted map[string]any
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, spec); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]any{"sku": wanted["sku"], "region": wanted["region"], "cordoned": wanted["cordoned"]}, columns); diff != "" {
			t.Error(diff)
		}
	}
}
