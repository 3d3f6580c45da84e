package relay_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	agentrelay "github.com/gpuaas/gpuaas/agent/relay"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/protocol"
)

func output(t *testing.T, c *xssh.Client, command, input string) string {
	t.Helper()
	session, err := c.NewSession()
	must(t, err)
	defer session.Close()
	session.Stdin = strings.NewReader(input)
	text, err := session.CombinedOutput(command)
	must(t, err)
	return string(text)
}

// ending returns a channel that is closed when a connection has ended.
func ending(client *xssh.Client) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		_ = client.Wait()
		close(ended)
	}()
	return ended
}

// INV-53: a stream reaches its allocation, over a connection that the agent opens.
func TestINV53AStreamReachesItsAllocation(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(1)
	client := i.client(of, 1)
	if got := output(t, client, "echo hello; cat", "typed"); got != "hello\ntyped" {
		t.Errorf("echo: %q", got)
	}
	gpus, err := sim.UUIDs(i.node, profile)
	must(t, err)
	if got := output(t, client, "nvidia-smi -L", ""); !strings.Contains(got, gpus[0]) || strings.Count(got, "GPU-") != 1 {
		t.Errorf("nvidia-smi: %q", got)
	}
	session, err := client.NewSession()
	must(t, err)
	must(t, session.RequestPty("xterm", 33, 77, xssh.TerminalModes{}))
	var screen bytes.Buffer
	session.Stdout = &screen
	exit, is := errors.AsType[*xssh.ExitError](session.Run("stty size; exit 3"))
	if !is || exit.ExitStatus() != 3 || strings.TrimSpace(screen.String()) != "33 77" {
		t.Errorf("terminal: %v, %q", exit, screen.String())
	}
	// Two more at the same time, and 4 MiB through one.
	other := i.client(of, 1)
	large := strings.Repeat("x", 4<<20)
	if got := output(t, other, "cat", large); got != large {
		t.Errorf("4 MiB came back as %d bytes", len(got))
	}
	if got := i.streams(); got != "logs 0, ssh 2" {
		t.Errorf("streams: %s, want 2", got)
	}
	i.eventually("no request is left", func() bool {
		var n int
		must(t, i.db.QueryRow(t.Context(), `SELECT count(*) FROM relay_requests`).Scan(&n))
		return n == 0
	})
}

// A rejection reaches the caller with its reason, long before the time of a request is over.
func TestRejectedStreams(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(5)
	rejected := func(what string, of ids.Allocation, fence int64, code protocol.RejectReason) {
		t.Helper()
		began := time.Now()
		conn, err := i.dial(of, fence)
		if conn != nil || errs.CodeOf(err) != errs.Unavailable || !strings.Contains(err.Error(), string(code)) {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: %s", what, took)
		}
	}
	rejected("an old fence", of, 4, protocol.StaleFence)
	rejected("a fence that has not arrived", of, 6, protocol.NotActive)
	rejected("an unknown allocation", ids.New[ids.Allocation](), 5, protocol.NotActive)

	conn, err := i.dial(of, 5)
	must(t, err)
	if _, err := i.login(conn, ids.New[ids.Allocation]().String()); err == nil {
		t.Error("a certificate for another allocation logs in")
	}
	client := i.client(of, 5)
	ended := ending(client)
	i.release(of, 7)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the session outlives its allocation")
	}
	rejected("a released allocation", of, 7, protocol.NotActive)
	rejected("a released allocation at its old fence", of, 5, protocol.NotActive)
}

// INV-40: the streams of a revoked node end within two seconds, and it opens no others.
func TestINV40StreamsOfARevokedNodeEnd(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(1)
	client := i.client(of, 1)
	ended := ending(client)
	i.revoke(i.node)
	select {
	case <-ended:
	case <-time.After(2500 * time.Millisecond):
		t.Error("a stream of a revoked node is open after 2 seconds")
	}
}

// A renewal of the certificate, after which the serial of a stream expires, ends no stream.
func TestStreamsOutliveRenewals(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(1)
	client := i.client(of, 1)
	must(t, pgx.BeginFunc(t.Context(), i.db, func(tx pgx.Tx) error {
		_, err := i.certs.Renewed(t.Context(), tx, i.node, pki.Certificate{Serial: "abcdef", NotAfter: time.Now().Add(time.Hour)}, "stamp")
		if err == nil {
			_, err = tx.Exec(t.Context(), `UPDATE certificates SET not_after = now() - interval '1 s' WHERE node_id = $1 AND serial <> 'abcdef'`, i.node)
		}
		return err
	}))
	select {
	case <-ending(client):
		t.Error("the stream has ended")
	case <-time.After(2200 * time.Millisecond):
	}
	if got := output(t, client, "echo alive", ""); got != "alive\n" {
		t.Errorf("%q", got)
	}
}

// The listener serves nodes with a certificate in force, and each stream once to its node.
func TestStrangersAndReusedStreams(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(1)
	i.stopNode()
	identity, found, err := enrol.Load(filepath.Join(i.stateDir, "identity"))
	if err != nil || !found {
		t.Fatal(found, err)
	}
	call := func(certificate *tls.Certificate, node ids.Node, stream string) int {
		t.Helper()
		config := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
		if certificate != nil {
			config.Certificates = []tls.Certificate{*certificate}
		}
		conn, err := tls.Dial("tcp", i.server.Address, config)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+i.server.Address+fmt.Sprintf(protocol.PathRelay, node), http.NoBody)
		must(t, err)
		request.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol.RelayUpgrade}, protocol.RelayStreamHeader: {stream}}
		must(t, request.Write(conn))
		response, err := http.ReadResponse(bufio.NewReader(conn), request)
		must(t, err)
		return response.StatusCode
	}
	dialled := make(chan error, 1)
	go func() {
		_, err := i.dial(of, 1)
		dialled <- err
	}()
	var stream ids.Task
	i.eventually("the request is stored", func() bool {
		return i.db.QueryRow(t.Context(), `SELECT stream_id FROM relay_requests`).Scan(&stream) == nil
	})
	other := ids.New[ids.Node]()
	name := pki.Name{Domain: domain, Kind: "node", ID: other.String()}
	key, csr, err := enrol.NewKey()
	must(t, err)
	made, err := i.ca.Issue(t.Context(), []byte(csr), name.URI(), time.Hour)
	must(t, err)
	foreign, err := tls.X509KeyPair(made.Chain, []byte(key))
	must(t, err)
	for what, try := range map[string]struct {
		certificate *tls.Certificate
		node        ids.Node
		stream      string
		want        int
	}{
		"no certificate":             {nil, i.node, stream.String(), http.StatusForbidden},
		"a certificate not in force": {&foreign, other, stream.String(), http.StatusForbidden},
		"the path of another node":   {identity.Pair(), other, stream.String(), http.StatusForbidden},
		"an unknown stream":          {identity.Pair(), i.node, ids.New[ids.Task]().String(), http.StatusNotFound},
		"a stream that is no id":     {identity.Pair(), i.node, "1; DROP TABLE", http.StatusNotFound},
	} {
		if got := call(try.certificate, try.node, try.stream); got != try.want {
			t.Errorf("%s: %d, want %d", what, got, try.want)
		}
	}
	must(t, pgx.BeginFunc(t.Context(), i.db, func(tx pgx.Tx) error {
		_, err := i.certs.Enrolled(t.Context(), tx, other, made, "stamp")
		return err
	}))
	if got := call(&foreign, other, stream.String()); got != http.StatusNotFound {
		t.Errorf("the stream of another node: %d", got)
	}
	if got := call(identity.Pair(), i.node, stream.String()); got != http.StatusSwitchingProtocols {
		t.Errorf("the stream of the node: %d", got)
	}
	must(t, <-dialled)
	if got := call(identity.Pair(), i.node, stream.String()); got != http.StatusNotFound {
		t.Errorf("the same stream again: %d", got)
	}
}

// A node rejects more streams than its limit, with the reason. The others continue.
func TestStreamsOfANodeAreBounded(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(1)
	client := i.client(of, 1)
	var opening errgroup.Group
	opening.SetLimit(16)
	for range agentrelay.MaxStreams - 1 {
		opening.Go(func() error {
			conn, err := i.dial(of, 1)
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
			return err
		})
	}
	must(t, opening.Wait())
	if _, err := i.dial(of, 1); errs.CodeOf(err) != errs.Unavailable || !strings.Contains(err.Error(), "128 streams") {
		t.Errorf("one more: %v", err)
	}
	if got := output(t, client, "echo alive", ""); got != "alive\n" {
		t.Errorf("%q", got)
	}
	must(t, client.Close())
	i.eventually("another stream is opened", func() bool {
		conn, err := i.dial(of, 1)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// A partition, the end of the agent and the end of the terminal server each end the streams.
func TestStreamsEndWithTheirProcesses(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(1)
	ends := func(what string, end func()) {
		t.Helper()
		client := i.client(of, 1)
		ended := ending(client)
		end()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the stream is still open", what)
		}
	}
	ends("partition", func() { must(t, sim.Partition(i.stateDir)) })
	must(t, sim.Heal(i.stateDir))
	ends("the end of the terminal server", i.stop)
	if _, err := i.dial(of, 1); errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("a server that has ended: %v", err)
	}
	i.startTerminal()
	ends("the end of the agent", i.stopNode)
}
