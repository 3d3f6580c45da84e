// Package api measures the REST API: creates, reads, repeated requests and deep pages.
package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/natsd"
)

// grown lists the tables to which a create adds one row.
var grown = []string{"idempotency_keys", "allocations", "allocation_transitions", "desired_objects", "reconcile_due", "audit_logs", "outbox_events", "slot_claims"}

// claimedSlots selects the slots that a create claims.
const claimedSlots = "slots WHERE status = 'claimed'"

// CreateAllocation compares POST /api/v1/allocations, with all middlewares, with pgbench. pgbench
// sends the same statements as the server.
func CreateAllocation(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(Creates, 10*lab.Connections) / lab.Connections * lab.Connections
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := Stall(ctx, l, "a1")
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); s.Stop() }()
	script, err := s.Capture(ctx)
	if err != nil {
		return nil, err
	}
	piped, err := l.Pgbench(ctx, s.Url, "piped", script.Pipelined(), n)
	if err != nil {
		return nil, err
	}
	single, err := l.Pgbench(ctx, s.Url, "single", script.OneByOne(), n)
	if err != nil {
		return nil, err
	}
	if err := s.SameRows(ctx, n, piped); err != nil {
		return nil, err
	}
	var rows []lab.Row
	for _, against := range []struct {
		id, path string
		peer     lab.Side
		goal     float64
	}{
		{"A1", "POST allocation, everything on / pgbench, same statements pipelined", piped, 0.7},
		{"A1-single", "the same / pgbench, same statements one by one", single, 0.9},
	} {
		p, err := l.Alternate(ctx, lab.LeastPairs, s.Reset, func(ctx context.Context) (time.Duration, error) { return s.load(ctx, n) }, against.peer)
		if err != nil {
			return nil, err
		}
		rows = append(rows, lab.Throughput(p, n, against.id, against.path).AtLeast(against.goal))
	}
	rows[0].Note = fmt.Sprintf("%d creates a run over %d connections; %d statements each", n, lab.Connections, len(script))
	sealed, err := addEnvelope(rows[0])
	return append(rows, sealed), err
}

// apiServer is a running release binary in the API's role.
type apiServer struct {
	lab     *lab.Lab
	Url     string // of the database
	address string
	storage string // of the S3 endpoint
	bus     *natsd.Server
	process *exec.Cmd
	runs    int
}

// Stall starts an API server with a marketplace of its own.
func Stall(ctx context.Context, l *lab.Lab, name string) (*apiServer, error) {
	url, err := l.Database(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := lab.Stalls.Open(ctx, l, url); err != nil {
		return nil, err
	}
	return serveAPI(ctx, l, name, url)
}

func serveAPI(ctx context.Context, l *lab.Lab, name, url string) (*apiServer, error) {
	binary, err := l.Gpuaas(ctx)
	if err != nil {
		return nil, err
	}
	bus, err := natsd.Start(natsd.Config{Dir: filepath.Join(l.Dir, name+"-nats"), Listen: true, Log: l.Logger})
	if err != nil {
		return nil, err
	}
	free, err := freePorts(ctx, 4)
	if err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(l.Dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("making the server's log: %w", err)
	}
	defer func() { _ = said.Close() }() // the server has its own handle
	repository, err := repository(ctx, l)
	if err != nil {
		return nil, err
	}
	args := []string{
		"server", "--roles=api", "--repository", repository, "--listen", free[0], "--metrics-listen", free[1],
		"--state-dir", filepath.Join(l.Dir, name+"-state"), "--storage-listen", free[3],
	}
	if os.Getenv(lab.ProfileVariable) != "" {
		args = append(args, "--pprof-listen", free[2])
	}
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // our own binary
	cmd.Env = append(os.Environ(), "DATABASE_URL="+url, "NATS_URL="+bus.URL())
	cmd.Stdout, cmd.Stderr = said, said
	lab.Gentle(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	s := &apiServer{lab: l, Url: url, address: free[0], storage: free[3], bus: bus, process: cmd}
	if err := s.awake(ctx, said.Name()); err != nil {
		return s, err
	}
	if dir := os.Getenv(lab.ProfileVariable); dir != "" {
		go profileServer(ctx, "http://"+free[2], filepath.Join(dir, name+".prof"))
	}
	return s, nil
}

// profileServer writes a CPU profile of a server that starts to work.
func profileServer(ctx context.Context, url, file string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/debug/pprof/profile?seconds=20", nil)
	if err != nil {
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if profile, err := io.ReadAll(resp.Body); err == nil {
		_ = os.WriteFile(file, profile, 0o600) //nolint:gosec // the caller names the folder
	}
}

// repository returns the path of a Git repository that declares a fleet. The server needs one in
// every role.
func repository(ctx context.Context, l *lab.Lab) (string, error) {
	if l.Declared != "" {
		return l.Declared, nil
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	root, to := strings.TrimSpace(string(out)), filepath.Join(l.Dir, "repository")
	for _, args := range [][]string{
		{"mkdir", "-p", to + "/environments"},
		{"cp", "-R", root + "/environments/dev", to + "/environments/"},
		{"git", "-C", to, "init", "-q"},
		{"git", "-C", to, "add", "."},
		{"git", "-C", to, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "fleet"},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec // constants and our own paths
			return "", fmt.Errorf("%s: %w: %s", strings.Join(args[:1], " "), err, out)
		}
	}
	l.Declared = to
	return to, nil
}

func freePorts(ctx context.Context, n int) (addresses []string, err error) {
	for range n {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a port: %w", err)
		}
		defer func() { _ = listener.Close() }() // closed after all ports are chosen
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

func (s *apiServer) awake(ctx context.Context, log string) error {
	for began := (clock.Clock{}).Now(); (clock.Clock{}).Now().Sub(began) < lab.Patience; lab.Wait(ctx, lab.Poll) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/livez", nil)
		if err != nil {
			return fmt.Errorf("asking the server: %w", err)
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			return answer.Body.Close()
		}
	}
	said, _ := os.ReadFile(log)
	return fmt.Errorf("the server did not start: %s", said)
}

// Address returns where the server listens.
func (s *apiServer) Address() string { return s.address }

// StorageAddress returns where the S3 endpoint listens.
func (s *apiServer) StorageAddress() string { return s.storage }

// PID returns the id of the process.
func (s *apiServer) PID() int { return s.process.Process.Pid }

// AccessKey creates an access key of the S3 endpoint for tenant 0.
func (s *apiServer) AccessKey(ctx context.Context) (id, secret string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/api/v1/storage/keys", strings.NewReader(`{"name":"bench"}`))
	if err != nil {
		return "", "", fmt.Errorf("creating an access key: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+lab.Token(0))
	r.Header.Set("Content-Type", "application/json")
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", "", fmt.Errorf("creating an access key: %w", err)
	}
	defer w.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode != http.StatusCreated {
		return "", "", fmt.Errorf("creating an access key: status %d: %s: %w", w.StatusCode, text, err)
	}
	var made struct {
		ID     string `json:"access_key_id"`
		Secret string `json:"secret_access_key"`
	}
	err = json.Unmarshal(text, &made)
	return made.ID, made.Secret, err
}

func (s *apiServer) Stop() {
	_ = s.process.Wait() // it was ordered to end
	s.bus.Stop()
}

// load sends n creates from a separate process.
func (s *apiServer) load(ctx context.Context, n int) (time.Duration, error) {
	s.runs++
	return sendLoad(ctx, s.lab, lab.LoadParameters{Address: s.address, Count: n, Connections: lab.Connections, Tenants: lab.Stalls.Tenants, Keys: fmt.Sprintf("run%d", s.runs)})
}

// sendLoad sends all requests of o from a separate process. A failed request is an error.
func sendLoad(ctx context.Context, l *lab.Lab, o lab.LoadParameters) (time.Duration, error) {
	done, err := tryLoad(ctx, l, o)
	if err == nil && done.Failed > 0 {
		err = fmt.Errorf("%d of %d requests failed, such as: %s", done.Failed, o.Count, done.Such)
	}
	return done.Took, err
}

// tryLoad is sendLoad for requests of which the server may reject some.
func tryLoad(ctx context.Context, l *lab.Lab, o lab.LoadParameters) (done lab.LoadResult, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return done, fmt.Errorf("encoding the parameters: %w", err)
	}
	cmd, err := l.ChildCommand(ctx, "load", lab.LoadVariable+"="+string(text))
	if err != nil {
		return done, err
	}
	out, err := cmd.Output()
	if err != nil {
		return done, fmt.Errorf("sending requests: %w", err)
	}
	if err := json.Unmarshal(out, &done); err != nil {
		return done, fmt.Errorf("reading what the load came to: %w", err)
	}
	return done, nil
}

// Reset deletes the rows of all creates, with the rows of other tables that refer to them, and makes every slot clean.
func (s *apiServer) Reset(ctx context.Context) error {
	return s.lab.Exec(ctx, s.Url, `TRUNCATE `+strings.Join(grown, ", ")+` CASCADE`, `UPDATE slots SET status = 'clean' WHERE status <> 'clean'`, `VACUUM ANALYZE slots`, `CHECKPOINT`)
}

// SameRows checks that both sides add the same number of rows. Otherwise the measurement would
// compare different work.
func (s *apiServer) SameRows(ctx context.Context, n int, peer lab.Side) error {
	for _, do := range []lab.Side{func(ctx context.Context) (time.Duration, error) { return s.load(ctx, n) }, peer} {
		if err := s.Reset(ctx); err != nil {
			return err
		}
		if _, err := do(ctx); err != nil {
			return err
		}
		counts, err := s.left(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(counts, func(count int) bool { return count != n }) {
			return fmt.Errorf("%d creates left %v rows in %v and %s", n, counts, grown, claimedSlots)
		}
	}
	return nil
}

const Creates = 5000
