// Package process describes this process in support bundles.
package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/redact"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/internal/version"
	"github.com/gpuaas/gpuaas/platform/support"
)

// Process describes the process of the server.
type Process struct {
	Roles   []string
	Profile any // a bundle has the class of each text
	Started time.Time
	Metrics prometheus.Gatherer
	DB      pg.Pool
	// Log returns the last lines of the log; nil: there are none.
	Log func() []byte
}

// Sections returns the sections of the process.
func (p Process) Sections() []support.Section {
	return []support.Section{
		{File: "process.json", Meaning: "The build, the roles and the memory of this process.", Read: p.build},
		{File: "configuration.json", Meaning: "The environment and the profile. Each text is replaced by its class.", Read: p.configuration},
		{File: support.MetricsFile, Meaning: "The metrics of this process at the time of the bundle.", Read: p.metrics},
		{File: "statements.json", Meaning: "Statements of the API that run now, without their parameters, and the largest tables.", Read: p.statements},
		{File: "goroutines.txt", Meaning: "The stacks of all goroutines, grouped.", Read: func(context.Context) ([]byte, error) { return profile("goroutine", 1) }},
		{File: "heap.pprof", Meaning: "The profile of the heap, for go tool pprof.", Read: func(context.Context) ([]byte, error) { return profile("heap", 0) }},
		{File: "log.jsonl", Meaning: "The last lines of the log of this process.", Read: p.log},
	}
}

func (p Process) log(context.Context) ([]byte, error) {
	if p.Log == nil {
		return nil, errors.New("this process stores no lines of its log")
	}
	return p.Log(), nil
}

func profile(name string, detail int) ([]byte, error) {
	var out bytes.Buffer
	err := pprof.Lookup(name).WriteTo(&out, detail)
	return out.Bytes(), err
}

func (p Process) build(ctx context.Context) ([]byte, error) {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var schema int64
	var postgres string
	err := p.DB.QueryRow(ctx, `SELECT version_id, current_setting('server_version') FROM goose_db_version WHERE is_applied ORDER BY id DESC LIMIT 1`).Scan(&schema, &postgres)
	of := map[string]any{
		"version": version.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "cpus": runtime.NumCPU(), "roles": p.Roles,
		"started_at": p.Started.UTC(), "goroutines": runtime.NumGoroutine(), "heap_bytes": memory.HeapAlloc, "system_bytes": memory.Sys, "collections": memory.NumGC,
		"schema": schema, "postgresql": postgres,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if strings.HasPrefix(setting.Key, "vcs.") {
				of[strings.ReplaceAll(setting.Key, ".", "_")] = setting.Value
			}
		}
	}
	if err != nil {
		of["database"] = "cannot be read"
	}
	return json.Marshal(of)
}

// configuration shows numbers, switches and durations, and of each text only what kind of text it is.
func (p Process) configuration(context.Context) ([]byte, error) {
	environment := map[string]string{}
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, "GPUAAS_") || strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "STRIPE_") || name == "DATABASE_URL" || name == "NATS_URL" || strings.HasPrefix(name, "GO") {
			environment["variable_"+name] = classOf(value)
		}
	}
	return json.Marshal(map[string]any{"environment": environment, "profile": classes(reflect.ValueOf(p.Profile))})
}

// classes replaces each text of a value by its class.
func classes(v reflect.Value) any {
	switch v.Kind() { //nolint:exhaustive // the others name their kind
	case reflect.Struct:
		of := map[string]any{}
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				of[field.Name] = classes(v.Field(i))
			}
		}
		return of
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return classes(v.Elem())
	case reflect.Slice, reflect.Map, reflect.Array:
		return fmt.Sprintf("%d entries", v.Len())
	case reflect.String:
		return classOf(v.String())
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Int32, reflect.Float64:
		return v.Interface()
	default:
		return v.Kind().String()
	}
}

func classOf(value string) string {
	u, err := url.Parse(value)
	switch {
	case value == "":
		return "empty"
	case strings.HasPrefix(value, "credential:"):
		return "reference"
	case err == nil && u.Scheme != "" && u.Host != "":
		return "URL with scheme " + u.Scheme
	case filepath.IsAbs(value):
		return "path"
	case value == "true" || value == "false" || strings.Trim(value, "0123456789") == "":
		return value
	default:
		return "text"
	}
}

func (p Process) metrics(context.Context) ([]byte, error) {
	families, err := p.Metrics.Gather()
	var out bytes.Buffer
	for _, family := range families { // those that could be read, if others failed
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			return nil, fmt.Errorf("writing metrics: %w", err)
		}
	}
	if out.Len() == 0 && err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return out.Bytes(), nil
}

// mostStatement limits the text of a statement. Ours have parameters; values of others are replaced.
const mostStatement = 1000

func (p Process) statements(ctx context.Context) ([]byte, error) {
	running, err := rowsOf(ctx, p.DB, `
		SELECT pid, state, coalesce(wait_event_type, '') AS waits_for, coalesce(wait_event, '') AS wait_event, extract(epoch FROM now() - xact_start)::float8 AS transaction_seconds,
			extract(epoch FROM now() - query_start)::float8 AS statement_seconds, pg_blocking_pids(pid)::text AS blocked_by, left(regexp_replace(query, '''[^'']*''', '''…''', 'g'), $1) AS statement
		FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 50`, mostStatement)
	if err != nil {
		return nil, err
	}
	tables, err := rowsOf(ctx, p.DB, `
		SELECT schemaname || '.' || relname AS relation, n_live_tup AS live_rows, n_dead_tup AS dead_rows, seq_scan AS scans, last_autovacuum, pg_total_relation_size(relid) AS bytes
		FROM pg_stat_all_tables ORDER BY pg_total_relation_size(relid) DESC LIMIT $1`, 30)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"running": running, "tables": tables})
}

func rowsOf(ctx context.Context, db pg.Pool, sql string, args ...any) ([]map[string]any, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToMap)
}

// Secrets are the values of the environment, and of the files that it names, that no bundle may contain.
func Secrets() (all []support.Secret) {
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		if base, file := strings.CutSuffix(name, "_FILE"); file {
			if name, value = base, ""; secret(base) {
				value, _ = secretref.FromEnv(os.Getenv, base) // a file that cannot be read has no secret here
			}
		}
		if secret(name) {
			all = append(all, support.Secret{Name: name, Value: value})
		}
		if strings.HasSuffix(name, "_HEADERS") { // NAME=VALUE[,…], as of OpenTelemetry
			for pair := range strings.SplitSeq(value, ",") {
				_, header, _ := strings.Cut(pair, "=")
				all = append(all, support.Secret{Name: name, Value: header})
			}
		}
		all = append(all, support.Secret{Name: "login in " + name, Value: Password(value)})
	}
	return all
}

// secret reports whether the value of a variable is a secret.
func secret(name string) bool {
	return redact.Secret(name) || strings.HasSuffix(name, "SSH_KEY") || name == "PGPASSWORD" || name == "GPUAAS_KEK"
}

// Password returns the password of a URL, the token that a URL of NATS has as its user, or "".
func Password(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return ""
	}
	password, found := u.User.Password()
	if !found && strings.HasPrefix(u.Scheme, "nats") {
		return u.User.Username()
	}
	return password
}

// KeyFile returns the texts of a file with keys that no bundle may contain, such as that of the key-encryption key.
func KeyFile(path string) (all []support.Secret) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil
	}
	for _, value := range long.FindAllString(string(text), -1) {
		all = append(all, support.Secret{Name: filepath.Base(path), Value: value})
	}
	return all
}

// long is a key in base64 or hexadecimal digits.
var long = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)
