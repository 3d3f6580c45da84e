package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/protocol"
)

// crowdVariable is the environment variable that passes a crowdParameters to a process that simulates
// agents.
const crowdVariable = "GPUAAS_BENCH_CROWD"

// crowdParameters describes a crowd of agents at one listener. Each agent has its own certificate, as in
// production.
type crowdParameters struct {
	Address string
	Kind    string // of the listener
	Secrets string // the authority's folder
	Agents  int
}

// agents simulates many agents in one process. They only connect and wait.
type agents struct {
	crowdParameters

	configs []*tls.Config
	nodes   []ids.Node
	round   byte // of source addresses: a port rests for a minute after use

	hinted atomic.Int64
	last   atomic.Int64
}

func CrowdProcess(ctx context.Context) error {
	var c agents
	if err := json.Unmarshal([]byte(os.Getenv(crowdVariable)), &c.crowdParameters); err != nil {
		return fmt.Errorf("reading the parameters: %w", err)
	}
	if err := c.certify(ctx); err != nil {
		return err
	}
	return lab.Obey(ctx, c.do)
}

func (c *agents) do(ctx context.Context, command string) lab.Outcome {
	began := clock.Clock{}.Now()
	var err error
	switch command {
	case "ready": // all that came before is done
	case "wait":
		err = c.forEach(func(i int) error { return c.wait(ctx, i) })
	case "hinted":
		for c.hinted.Load() < int64(c.Agents) && (clock.Clock{}).Now().Sub(began) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		if n := c.hinted.Load(); n < int64(c.Agents) {
			err = fmt.Errorf("%d of %d were hinted", n, c.Agents)
		}
		c.hinted.Store(0)
	case "storm":
		c.round++
		err = c.forEach(func(i int) error { return c.knock(ctx, i) })
	case "forget":
		c.forget()
	default:
		err = fmt.Errorf("no command is named %q", command)
	}
	t := lab.Outcome{Took: clock.Clock{}.Now().Sub(began), At: c.last.Load()}
	if err != nil {
		t.Err = err.Error()
	}
	return t
}

// certify issues the certificates that an enrolment would.
func (c *agents) certify(ctx context.Context) error {
	ca, err := pki.Open(c.Secrets, clock.Clock{})
	if err != nil {
		return err
	}
	for range c.Agents {
		key, csr, err := enrol.NewKey()
		if err != nil {
			return err
		}
		node := ids.New[ids.Node]()
		made, err := ca.Issue(ctx, []byte(csr), pki.Name{Domain: trustDomain, Kind: "node", ID: node.String()}.URI(), time.Hour)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(made.Chain, []byte(key))
		if err != nil {
			return fmt.Errorf("pairing: %w", err)
		}
		config, err := pki.ClientTLS(ca.Bundle(), func() (*tls.Certificate, error) { return &pair, nil }, clock.Clock{})
		if err != nil {
			return err
		}
		config.ServerName = "127.0.0.1"
		c.configs, c.nodes = append(c.configs, config), append(c.nodes, node)
	}
	c.forget()
	return nil
}

func (c *agents) forget() {
	for _, config := range c.configs {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
}

// dialers is the number of connections that are opened at the same time.
const dialers = 32

func (c *agents) forEach(do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, dialers)
	var all sync.WaitGroup
	for d := range dialers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < c.Agents && errs[d] == nil; i = int(next.Add(1)) - 1 {
				errs[d] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *agents) dial(ctx context.Context, i int) (*tls.Conn, error) {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1+c.round, byte(1+i%200))}} //nolint:gosec // below 256
	return pki.Connect(ctx, func(ctx context.Context) (net.Conn, error) { return from.DialContext(ctx, "tcp", c.Address) }, c.configs[i])
}

// knock connects, sends one request, reads one response, and disconnects.
func (c *agents) knock(ctx context.Context, i int) error {
	conn, err := c.dial(ctx, i)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: node-api\r\n\r\n"); err != nil {
		return fmt.Errorf("knocking: %w", err)
	}
	if _, err := conn.Read(make([]byte, 4<<10)); err != nil {
		return fmt.Errorf("knocking: %w", err)
	}
	return nil
}

// pondering is the time that an agent needs for a task before it polls for the next.
const pondering = 500 * time.Millisecond

// wait connects and polls again after each response.
func (c *agents) wait(ctx context.Context, i int) error {
	conn, err := c.dial(ctx, i)
	if err != nil {
		return err
	}
	header := ""
	if c.Kind == streamed {
		header = fmt.Sprintf("%s: %d\r\n", protocol.CapabilityHeader, protocol.Capability)
	}
	poll := fmt.Sprintf("GET "+protocol.PathWait+" HTTP/1.1\r\nHost: node-api\r\n%s\r\n", c.nodes[i], header)
	if _, err := io.WriteString(conn, poll); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	hear := c.frame
	if c.Kind != bareTLS {
		hear = c.answer
	}
	go func() {
		in := bufio.NewReaderSize(conn, 1<<10)
		for {
			hinted, err := hear(in)
			if err != nil {
				return // the listener has ended
			}
			if hinted {
				c.last.Store(clock.Clock{}.Now().UnixNano())
				c.hinted.Add(1)
				time.Sleep(pondering)
			}
			if c.Kind != bareTLS {
				if _, err := io.WriteString(conn, poll); err != nil {
					return
				}
			}
		}
	}()
	return nil
}

func (*agents) frame(in *bufio.Reader) (bool, error) {
	_, err := io.CopyN(io.Discard, in, frameSize)
	return err == nil, err
}

func (*agents) answer(in *bufio.Reader) (bool, error) {
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Body.Close() }()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode == http.StatusOK, err
}
