package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	sessions "github.com/gpuaas/gpuaas/product/terminal"
)

// clientsVariable is the environment variable that passes a clientsParameters to a process with many clients.
const clientsVariable = "GPUAAS_BENCH_CLIENTS"

// The kinds of clients.
const (
	bySSH      = "SSH"
	byTerminal = "terminal"
)

type clientsParameters struct {
	Kind        string
	Address     string
	Count       int
	Seconds     int
	Allocations []string // each client has the next one
}

// received is the total of all clients.
type received struct {
	Bytes  int64
	Failed int
}

// openers is the number of clients that are opened at the same time.
const openers = 8

// ClientsProcess has many clients, which read the output of their shells.
func ClientsProcess(ctx context.Context) error {
	var o clientsParameters
	if err := json.Unmarshal([]byte(os.Getenv(clientsVariable)), &o); err != nil {
		return fmt.Errorf("reading the parameters: %w", err)
	}
	var shells []*shell
	var seen watched
	return lab.Obey(ctx, func(ctx context.Context, command string) (out lab.Outcome) {
		var err error
		command, file, _ := strings.Cut(command, " ")
		switch command {
		case "rss":
			return lab.OwnMemory()
		case "open":
			shells, err = o.open(ctx)
		case "print":
			text, _ := json.Marshal(printAll(shells, o.Seconds)) // numbers
			out.Text = string(text)
		case "watch":
			err = seen.watch(shells)
		case "ended":
			err = seen.save(file)
		default:
			err = fmt.Errorf("no command is named %q", command)
		}
		if err != nil {
			out.Err = err.Error()
		}
		return out
	})
}

func (o clientsParameters) open(ctx context.Context) ([]*shell, error) {
	shells, errs := make([]*shell, o.Count), make([]error, openers)
	var next atomic.Int64
	var all sync.WaitGroup
	for k := range openers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < o.Count && errs[k] == nil; i = int(next.Add(1)) - 1 {
				if o.Kind == bySSH {
					shells[i], errs[k] = dialShell(o.Address, &ssh.ClientConfig{
						Config: ssh.Config{Ciphers: []string{cipher}}, User: "bench", HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: lab.Patience, //nolint:gosec // the node of this bench
					})
				} else {
					shells[i], errs[k] = o.terminal(ctx, i)
				}
				if errs[k] == nil {
					_, errs[k] = shells[i].until("$ ")
				}
			}
		})
	}
	all.Wait()
	return shells, errors.Join(errs...)
}

func (o clientsParameters) terminal(ctx context.Context, i int) (*shell, error) {
	of, err := ids.Parse[ids.Allocation](o.Allocations[i%len(o.Allocations)])
	if err != nil {
		return nil, err
	}
	conn, _, err := websocket.Dial(ctx, o.Address+sessions.Path(sessions.Shell, of), &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		Subprotocols: []string{"gpuaas.terminal.v1"}, HTTPHeader: http.Header{"Authorization": {"Bearer " + tokenOf(i)}},
	})
	if err != nil {
		return nil, fmt.Errorf("opening terminal %d: %w", i, err)
	}
	conn.SetReadLimit(-1)
	return &newTerminal(ctx, conn).shell, nil
}

// printAll lets all shells print, and counts what arrives until each has printed its last chunk.
func printAll(shells []*shell, seconds int) (r received) {
	var failed atomic.Int64
	var got atomic.Int64
	var all sync.WaitGroup
	for _, s := range shells {
		all.Go(func() {
			if err := s.types(fmt.Sprintf("%d %d\n", often, seconds)); err != nil {
				failed.Add(1)
				return
			}
			n, err := s.printed(clock.Clock{}.Now().Add(time.Duration(seconds)*time.Second + graceful))
			got.Add(n)
			if err != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	return received{got.Load(), int(failed.Load())}
}

// printed reads until the shell has printed its last chunk, and returns the number of bytes of chunks that arrived until end.
func (s *shell) printed(end time.Time) (n int64, err error) {
	p := make([]byte, 4<<10)
	for {
		k, err := s.Read(p)
		if (clock.Clock{}).Now().Before(end) {
			n += int64(bytes.Count(p[:k], []byte("x")))
		}
		switch {
		case bytes.Contains(p[:k], []byte("E")):
			return n, nil
		case err != nil:
			return n, fmt.Errorf("waiting for the end: %w", err)
		}
	}
}
