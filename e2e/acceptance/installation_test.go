//go:build e2e

package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gpuaas/gpuaas/cli"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/dev/up"
	"github.com/gpuaas/gpuaas/internal/profile"
	"github.com/gpuaas/gpuaas/internal/redact"
	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// profiles are those of the user, the operator and the administrator of the installation.
var profiles map[string]profile.Profile

// dataDir is the data directory of the installation.
var dataDir string

// services are the addresses of further services: mail_url, issuer_url and storage_url.
var services map[string]any

// installLog is the log of the installation, and recent has its last lines.
var (
	recent     = &telemetry.Recent{}
	installLog = slog.New(slog.NewJSONHandler(recent, &slog.HandlerOptions{ReplaceAttr: redact.Attr}))
)

// results are the results of the tests of this package by name.
var results sync.Map

func TestMain(m *testing.M) {
	validate.Child() // does not return in the child that evaluates files
	if os.Getenv(commandVariable) != "" {
		os.Exit(cli.Run())
	}
	os.Exit(run(m))
}

// run starts one installation for all tests, and prints the table of the criteria at the end.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gpuaas-acceptance-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = os.Chmod(dir, 0o711) // PostgreSQL does not run as root
	}
	if err == nil {
		err = plantEnvironment()
	}
	if err == nil {
		err = os.Setenv("GPUAAS_CONFIG_DIR", filepath.Join(dir, "config"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := fleet(filepath.Join(dir, "repo")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dataDir = filepath.Join(dir, "data")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- install(ctx, dir) }()
	defer func() { stop(); <-ended }()
	if err := ready(filepath.Join(dir, "ready"), ended); err != nil {
		fmt.Fprintln(os.Stderr, "the installation did not start:", err)
		return 1
	}
	file, err := (profile.Store{Path: filepath.Join(dir, "config", "config.yaml")}).Read()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	profiles = file.Profiles
	if err := readServices(filepath.Join(dir, "ready")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	table()
	if err := checkLog(recent.Lines()); err != nil {
		fmt.Fprintln(os.Stderr, "log:", err)
		return 1
	}
	return code
}

// checkLog compares each line that the installation has written with the JSON Schema, and searches for planted secrets.
func checkLog(lines []byte) error {
	compiler := jsonschema.NewCompiler()
	schema, err := compiler.Compile(filepath.Join("..", "..", "docs", "reference", "logs.schema.json"))
	if err != nil {
		return err
	}
	n, wrong := 0, []error{}
	for line := range bytes.Lines(lines) {
		if bytes.Contains(line, []byte("canary-")) {
			wrong = append(wrong, fmt.Errorf("a secret is in %s", line))
		}
		if bytes.Contains(line, []byte(`"msg":"planted"`)) {
			continue
		}
		one, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err == nil {
			err = schema.Validate(one)
		}
		if n++; err != nil {
			wrong = append(wrong, fmt.Errorf("%w: %s", err, line))
		}
	}
	if n < 10 {
		wrong = append(wrong, fmt.Errorf("only %d lines were written", n))
	}
	return errors.Join(wrong...)
}

// fleet creates a repository that contains the development fleet.
func fleet(dir string) error {
	if err := os.CopyFS(filepath.Join(dir, "environments", "dev"), os.DirFS(filepath.Join("..", "..", "environments", "dev"))); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"add", "--all"},
		{"-c", "user.name=e2e", "-c", "user.email=e2e@localhost", "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "fleet"},
	} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w\n%s", args, err, out)
		}
	}
	return nil
}

func install(ctx context.Context, dir string) error {
	const loopback = "127.0.0.1:0"
	return up.Run(ctx, up.Config{
		Dir: filepath.Join(dir, "data"), Repository: filepath.Join(dir, "repo"), Environment: "dev", Listen: loopback, NodeListen: loopback, Metrics: loopback,
		IssuerListen: loopback, PaymentsListen: loopback, MailListen: loopback, StorageListen: loopback, SimNodes: -1, Headless: true, ReadyFile: filepath.Join(dir, "ready"), Profile: "default",
		Out: io.Discard, Log: installLog, RecentLog: recent.Lines,
	})
}

func ready(path string, ended <-chan error) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			return errors.Join(errors.New("it has ended"), err)
		default:
		}
		if _, err := os.Stat(path); err == nil {
			return nil
		}
	}
	return errors.New("it is not ready after 30 s")
}

func readServices(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &services)
}

// table prints id, result, sentence and tests of each criterion.
func table() {
	for _, c := range criteria {
		result := "in " + strings.Join(c.tests, ", ")
		for _, name := range c.tests {
			if got, ran := results.Load(strings.TrimPrefix(name, own)); ran {
				result = fmt.Sprint(got) + ", " + result
			}
		}
		if len(c.tests) == 0 {
			result = "open"
		}
		if c.waits != "" {
			result += "; waits for " + c.waits
		}
		fmt.Printf("%s  %s\n        %s\n", c.id, c.sentence, result)
	}
}

// proves records the result of a test for the table. The tests run one after the other: a user may have four allocations.
func proves(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		result := "passed"
		if t.Failed() {
			result = "FAILED"
		}
		results.Store(t.Name(), result)
	})
}

// reply is a response of the API.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// into decodes the body.
func (r reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
}

// request is one request of a profile.
type request struct {
	as, method, path string
	body             any
	header           map[string]string
}

func (q request) send(t *testing.T) reply {
	t.Helper()
	p, found := profiles[strings.TrimSuffix("default-"+q.as, "-")]
	if !found {
		t.Fatalf("no profile of %q", q.as)
	}
	text, isText := q.body.([]byte) // otherwise JSON
	if q.body != nil && !isText {
		var err error
		if text, err = json.Marshal(q.body); err != nil {
			t.Fatal(err)
		}
	}
	// The cleanup of a test sends requests, too.
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), q.method, p.URL+q.path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.Token)
	if p.Project != "" && q.as == "" {
		r.Header.Set("X-Project-ID", p.Project)
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, body}
}

// get reads a document as the user.
func get(t *testing.T, path string, into any) {
	t.Helper()
	r := request{method: "GET", path: path}.send(t)
	if r.status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, r.status, r.body)
	}
	r.into(t, into)
}

// until polls for an effect of the installation.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
