package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// logPrefix begins every entry of the server's log in this cluster, because an entry may have many
// lines.
const logPrefix = "~~"

// statement is one SQL statement of the server, with the texts of its parameters.
type statement struct {
	Sql    string
	Params []string // SQL expressions, typed
}

// Script contains the statements that the server sends for one create, with begin and commit.
type Script []statement

func Tail(path string, from int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the database's log: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.NewSectionReader(f, from, 1<<30))
	if err != nil {
		return "", fmt.Errorf("reading the database's log: %w", err)
	}
	return string(text), nil
}

var (
	entryText = regexp.MustCompile(`(?s)^(?:\d+ )?gpuaas-api LOG:  (?:execute [^:]*|statement): (.*)$`)
	paramText = regexp.MustCompile(`(?s)^(?:\d+ )?gpuaas-api DETAIL:  parameters: (.*)$`)
	oneParam  = regexp.MustCompile(`(?s)^\$\d+ = (NULL|'(?:[^']|'')*')(?:, )?`)
)

// Entries returns the statements of a log as PostgreSQL executed them. Parameters have the form of the log:
// quoted, or NULL.
func Entries(log string) (list []statement) {
	ofRequest := false // the last statement, whose parameters follow
	for entry := range strings.SplitSeq(log, logPrefix) {
		entry = strings.ReplaceAll(strings.TrimRight(entry, "\n"), "\n\t", "\n")
		if m := entryText.FindStringSubmatch(entry); m != nil {
			// A timer of the server sends these every second or two. They belong to no request.
			ofRequest = !strings.Contains(m[1], "policy_revision") && !strings.Contains(m[1], "rate_limits")
			if ofRequest {
				list = append(list, statement{Sql: strings.TrimSpace(m[1])})
			}
		} else if m := paramText.FindStringSubmatch(entry); m != nil && ofRequest {
			rest := m[1]
			for {
				p := oneParam.FindStringSubmatch(rest)
				if p == nil {
					break
				}
				list[len(list)-1].Params = append(list[len(list)-1].Params, p[1])
				rest = rest[len(p[0]):]
			}
		}
	}
	return list
}

// LastCreate returns the statements between the last two commits. The create before the last commit
// but one has filled the caches of the server, so these contain no first lookups.
func LastCreate(list []statement) (last Script) {
	var ends []int
	for i, s := range list {
		if strings.EqualFold(s.Sql, "commit") {
			ends = append(ends, i)
		}
	}
	if len(ends) < 2 {
		return nil
	}
	return list[ends[len(ends)-2]+1 : ends[len(ends)-1]+1]
}

// Typed converts the texts of parameters to SQL expressions with the types that PostgreSQL gives
// them. Values that differ between creates become expressions of pgbench's variables.
func Typed(ctx context.Context, url string, s Script) (Script, error) {
	if len(s) == 0 {
		return nil, errors.New("no create was found in the database's log")
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	v := Vary{Fresh: map[string]string{}}
	for i, one := range s {
		if len(one.Params) == 0 {
			continue
		}
		prepared, err := conn.Prepare(ctx, "", one.Sql)
		if err != nil {
			return nil, fmt.Errorf("preparing a captured statement: %w", err)
		}
		if len(prepared.ParamOIDs) != len(one.Params) {
			return nil, fmt.Errorf("the log shows %d of %d parameters of %.40s", len(one.Params), len(prepared.ParamOIDs), one.Sql)
		}
		for j, oid := range prepared.ParamOIDs {
			var name string
			if err := conn.QueryRow(ctx, `SELECT format_type($1, NULL)`, oid).Scan(&name); err != nil {
				return nil, fmt.Errorf("naming a type: %w", err)
			}
			s[i].Params[j] = v.Expression(one.Params[j], name)
		}
	}
	return s, nil
}

// Vary replaces the ids in a captured value by those of create k. Fresh maps each captured id to
// its prefix, so that an id that occurs twice stays equal.
type Vary struct{ Fresh map[string]string }

// mark surrounds the name of a pgbench variable in a value. No captured text contains a NUL byte.
const mark = "\x00"

var (
	ofTenant  = regexp.MustCompile(`((?:aaaaaaaa|bbbbbbbb|cccccccc)-0000-7000-8000-)\d{12}`)
	ofSlot    = regexp.MustCompile(`(` + SlotPrefix + `)\d{12}`)
	ofNode    = regexp.MustCompile(`(` + NodePrefix + `)\d{12}`)
	ofKey     = regexp.MustCompile(`(` + Captured + `-)\d+`)
	ofName    = regexp.MustCompile(`(` + Sku + `-)\d{6,}`)
	otherUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

func (v Vary) Expression(logged, kind string) string {
	if logged == "NULL" {
		return "NULL::" + kind
	}
	text := strings.ReplaceAll(logged[1:len(logged)-1], "''", "'")
	for _, r := range []struct {
		what   *regexp.Regexp
		number string
	}{{ofTenant, "t"}, {ofSlot, "s"}, {ofNode, "d"}, {ofKey, "n"}, {ofName, "n"}} {
		text = r.what.ReplaceAllString(text, "${1}"+mark+r.number+mark)
	}
	text = otherUUID.ReplaceAllStringFunc(text, func(id string) string {
		if v.Fresh[id] == "" {
			v.Fresh[id] = fmt.Sprintf("9999%04d-0000-7000-8000-", len(v.Fresh))
		}
		return v.Fresh[id] + mark + "n" + mark
	})
	parts := strings.Split(text, mark)
	for i, part := range parts {
		if i%2 == 0 {
			parts[i] = quoted(part)
		} else {
			parts[i] = ":" + part
		}
	}
	return "(" + strings.Join(parts, " || ") + ")::" + kind
}

// quoted writes a constant without a colon, because pgbench reads a colon as the start of a
// variable.
func quoted(s string) string {
	return `E'` + strings.NewReplacer(`\`, `\\`, `'`, `''`, ":", `\x3A`).Replace(s) + `'`
}

var placeholder = regexp.MustCompile(`\$(\d+)`)

func (s Script) body() string {
	var b strings.Builder
	for _, one := range s {
		b.WriteString(placeholder.ReplaceAllStringFunc(one.Sql, func(p string) string {
			i, _ := strconv.Atoi(p[1:]) // the expression matches digits only
			return one.Params[i-1]
		}))
		b.WriteString(";\n")
	}
	return b.String()
}

// numbers sets the variables of create k. k counts over all clients in turn.
func (s Script) numbers() string {
	return fmt.Sprintf(`\set k :i * %d + :client_id
\set i :i + 1
\set n %d + :k
\set t %d + :k %% %d
\set s %d + :k
\set d %d + :k / %d
`, Connections, int64(First), int64(First), Stalls.Tenants, int64(First), int64(First), Stalls.SlotsPerNode)
}

func (s Script) Pipelined() string {
	return s.numbers() + "\\startpipeline\n" + s.body() + "\\endpipeline\n"
}

// OneByOne sends each statement separately. The reads before the transaction get their scope from
// the previous statement. That setting is local to a transaction, so it is made a setting of the
// session here.
func (s Script) OneByOne() string {
	read, written, _ := strings.Cut(s.body(), "begin;")
	return s.numbers() + strings.ReplaceAll(read, ", true)", ", false)") + "begin;" + written
}

// sessionOptions give the sessions of the peer the settings of the server's sessions, so that both
// sides have the same time limits.
const sessionOptions = " -c timezone=UTC -c statement_timeout=30s -c lock_timeout=10s -c idle_in_transaction_session_timeout=30s"

// ApiRole is the database role of the API. Row-level security applies to it.
const ApiRole = "gpuaas_api"

var rate = regexp.MustCompile(`tps = ([0-9.]+) \(without initial connection time\)`)

// Pgbench returns a side that runs a script n times, on as many connections as our side uses.
func (l *Lab) Pgbench(ctx context.Context, database, name, text string, n int) (Side, error) {
	return l.PgbenchAs(ctx, ApiRole, database, name, text, n)
}

// PgbenchAs returns the side of Pgbench for another database role.
func (l *Lab) PgbenchAs(ctx context.Context, role, database, name, text string, n int) (Side, error) {
	bin, err := pgcluster.Find(ctx)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(bin.Dir, "pgbench")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("pgbench"); err != nil {
			return nil, errors.New("pgbench is not installed; it is part of PostgreSQL's server or contrib package")
		}
	}
	file := filepath.Join(l.Dir, name+".pgbench")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("writing pgbench's script: %w", err)
	}
	at, err := url.Parse(database)
	if err != nil {
		return nil, fmt.Errorf("reading the database's address: %w", err)
	}
	return func(ctx context.Context) (time.Duration, error) {
		args := []string{
			"-n", "-M", "prepared", "-c", strconv.Itoa(Connections), "-j", "1", "-t", strconv.Itoa(n / Connections),
			"-D", "i=0", "-f", file, "-h", at.Query().Get("host"), "-U", at.User.Username(), strings.TrimPrefix(at.Path, "/"),
		}
		cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // our own script
		cmd.Env = append(os.Environ(), "PGOPTIONS=-c role="+role+sessionOptions)
		out, err := cmd.CombinedOutput()
		m := rate.FindSubmatch(out)
		if err != nil || m == nil {
			return 0, fmt.Errorf("pgbench: %w: %s", err, out)
		}
		tps, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return 0, fmt.Errorf("reading pgbench's rate: %w", err)
		}
		return time.Duration(float64(n) / tps * float64(time.Second)), nil
	}, nil
}
