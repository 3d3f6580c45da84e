package access

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/relay"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/terminal/relayrequest"
	"github.com/gpuaas/gpuaas/protocol"
)

// NodesProcess is the SSH server of all nodes, and the relay of each agent. It reads requests for streams from the database, in
// place of polls.
func NodesProcess(ctx context.Context) error {
	o, err := parametersOf()
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("making a host key: %w", err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return fmt.Errorf("making a host key: %w", err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true, PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }} //nolint:nilnil // accepted
	config.AddHostKey(key)
	go serveShells(l, config)
	if err := o.relays(ctx, l.Addr().String()); err != nil {
		return err
	}
	return lab.Obey(ctx, func(context.Context, string) lab.Outcome {
		return lab.Outcome{Text: l.Addr().String() + " " + protocol.HostKeyLine(key.PublicKey())}
	})
}

// relays starts the agents, whose streams lead to login.
func (o serverParameters) relays(ctx context.Context, login string) error {
	db, err := lab.OpenAs(ctx, o.Database, "node", 2)
	if err != nil {
		return err
	}
	agents := map[ids.Node]*relay.Relay{}
	var nodes []ids.Node
	for i := range o.Nodes {
		node := ids.From[ids.Node](uuid.MustParse(lab.NodePrefix + fmt.Sprint(lab.First+int64(i))))
		who, err := o.identity(ctx, node)
		if err != nil {
			return err
		}
		nodes = append(nodes, node)
		agents[node] = &relay.Relay{
			Identity: func() *enrol.Identity { return &who }, Log: lab.Quiet(os.Stderr),
			Stream: func(_ context.Context, s protocol.Signed) (helper.Stream, error) { return streamOf(s, login) },
		}
	}
	go func() {
		for ctx.Err() == nil {
			due, err := relayrequest.Store{DB: db}.Next(ctx, nodes...)
			if err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, err)
			}
			for node, requests := range due {
				for _, s := range requests {
					go func() { _ = agents[node].Open(ctx, s) }()
				}
			}
			lab.Wait(ctx, lab.Poll)
		}
	}()
	return nil
}

// streamOf reads a request. The helper of a node verifies its signature before.
func streamOf(s protocol.Signed, login string) (helper.Stream, error) {
	var e protocol.Envelope
	if err := json.Unmarshal(s.Body, &e); err != nil {
		return helper.Stream{}, fmt.Errorf("reading a request: %w", err)
	}
	p, err := protocol.ParamsOf[protocol.RelayOpenParams](e)
	return helper.Stream{ID: e.Task, Kind: p.Kind, Address: p.Address, ServerKey: p.ServerKey, Login: login}, err
}

func (o serverParameters) identity(ctx context.Context, node ids.Node) (who enrol.Identity, err error) {
	ca, err := pki.Open(o.Secrets, clock.Clock{})
	if err != nil {
		return who, err
	}
	keys, err := secret.OpenSigner(filepath.Join(o.Secrets, "keys"))
	if err != nil {
		return who, err
	}
	key, csr, err := enrol.NewKey()
	if err != nil {
		return who, err
	}
	made, err := ca.Issue(ctx, []byte(csr), pki.Name{Domain: trustDomain, Kind: "node", ID: node.String()}.URI(), time.Hour)
	if err != nil {
		return who, err
	}
	return enrol.From(protocol.EnrolReply{
		Node: node, Certificate: string(made.Chain), NotAfter: made.NotAfter, Trust: protocol.Trust{CAs: string(ca.Bundle()), TaskKeys: keys.Public()},
	}, key, enrol.Identity{})
}

func serveShells(l net.Listener, config *ssh.ServerConfig) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, channels, requests, err := ssh.NewServerConn(conn, config)
			if err != nil {
				_ = conn.Close()
				return
			}
			go ssh.DiscardRequests(requests)
			for one := range channels {
				if channel, requests, err := one.Accept(); err == nil {
					go serveShell(channel, requests)
				}
			}
		}()
	}
}

// serveShell prints a prompt, and then for each line "HERTZ SECONDS" chunks at that rate and a last "E". For a line "flood BYTES" it
// prints as fast as the client receives.
func serveShell(channel ssh.Channel, requests <-chan *ssh.Request) {
	for r := range requests {
		_ = r.Reply(true, nil)
		if r.Type == "shell" {
			break
		}
	}
	go ssh.DiscardRequests(requests)
	defer channel.Close() //nolint:errcheck // the client is gone
	_, _ = io.WriteString(channel, "$ ")
	in := bufio.NewScanner(channel)
	for in.Scan() {
		var hertz, seconds, most int
		if _, err := fmt.Sscanf(in.Text(), "flood %d", &most); err == nil {
			printBytes(channel, most)
		} else if _, err := fmt.Sscanf(in.Text(), "%d %d", &hertz, &seconds); err == nil {
			printChunks(channel, hertz, time.Duration(seconds)*time.Second)
		}
		_, _ = io.WriteString(channel, "E")
	}
}

func printBytes(to io.Writer, n int) {
	p := bytes.Repeat([]byte("x"), 32<<10)
	for ; n > 0; n -= len(p) {
		if _, err := to.Write(p[:min(n, len(p))]); err != nil {
			return
		}
	}
}

// printChunks prints each chunk at its time or as soon as the client receives it, and none after the end.
func printChunks(to io.Writer, hertz int, during time.Duration) {
	p, began := bytes.Repeat([]byte("x"), chunk), clock.Clock{}.Now()
	for i := range hertz * int(during/time.Second) {
		passed := clock.Clock{}.Now().Sub(began)
		time.Sleep(time.Duration(i)*time.Second/time.Duration(hertz) - passed)
		if passed > during+graceful {
			return
		}
		if _, err := to.Write(p); err != nil {
			return
		}
	}
}
