package access

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func TestPortsOfAForward(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"8888": "8888 8888", "8888:80": "8888 80", "0:80": "0 80", "65535:1": "65535 1",
		"": "", "0": "", "80:0": "", "x": "", "80:": "", ":80": "", "80:80:80": "", "65536": "", "-1:80": "", "1:65536": "", "127.0.0.1:80": "", "80 ": "",
	} {
		local, to, err := parsePorts(text)
		if got := fmt.Sprint(local, to); (err == nil) != (want != "") || err == nil && got != want || err != nil && errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// A port that is in use opens none of the others.
func TestAPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := func(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }
	_ = free.Close()
	if _, err := listenOn(t.Context(), []string{port(free), port(taken)}); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("%v", err)
	}
	again, err := net.Listen("tcp", free.Addr().String())
	if err != nil {
		t.Fatalf("the first port is still open: %v", err)
	}
	_ = again.Close()
}

// sshServer accepts every login, and connects to ports that allow accepts.
func sshServer(t *testing.T, allow func(port uint32) error) *ssh.Client {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	server := &ssh.ServerConfig{NoClientAuth: true}
	server.AddHostKey(key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		far, err := l.Accept()
		if err != nil {
			return
		}
		_, channels, requests, err := ssh.NewServerConn(far, server)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for one := range channels {
			var to struct {
				Host     string
				Port     uint32
				From     string
				FromPort uint32
			}
			_ = ssh.Unmarshal(one.ExtraData(), &to)
			if err := allow(to.Port); err != nil {
				reason := ssh.ConnectionFailed
				if errors.Is(err, errProhibited) {
					reason = ssh.Prohibited
				}
				_ = one.Reject(reason, err.Error())
				continue
			}
			channel, requests, err := one.Accept()
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			go func() {
				text, _ := io.ReadAll(channel)
				_, _ = fmt.Fprintf(channel, "%s:%d %s", to.Host, to.Port, text)
				_ = channel.Close()
			}()
		}
	}()
	conn, channels, requests, err := ssh.NewClientConn(near, "x", &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(key.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var errProhibited = errors.New("prohibited")

// notes collects what the user reads.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// Each connection reaches its port in the allocation, in both directions, after one side has ended its own. A rejection
// reaches the user with the policy.
func TestConnectionsAreForwarded(t *testing.T) {
	t.Parallel()
	client := sshServer(t, func(port uint32) error {
		switch port {
		case 81:
			return errProhibited
		case 82:
			return errors.New("connection refused")
		}
		return nil
	})
	ports, err := listenOn(t.Context(), []string{"0:80", "0:81", "0:82"})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(ports)
	said := &notes{}
	one := &target{console: &output.Console{Err: said}, allocation: oapi.Allocation{Name: "otter"}}
	for _, p := range ports {
		go one.serve(t.Context(), client, p)
	}
	for i, want := range []string{"127.0.0.1:80 hello", "", ""} {
		conn, err := net.Dial("tcp", ports[i].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "hello")
		_ = conn.(*net.TCPConn).CloseWrite()
		text, _ := io.ReadAll(conn)
		if string(text) != want {
			t.Errorf("port %d: %q, want %q", ports[i].to, text, want)
		}
		_ = conn.Close()
	}
	for _, want := range []string{"the node forwards no ports for the allocation", "no program of the allocation accepts connections at port 82"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the user reads %q, without %q", said.String(), want)
		}
	}
}
