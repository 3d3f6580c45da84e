package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

// IdleAgent measures the resident memory of the release agent while nothing happens.
func IdleAgent(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	binary := filepath.Join(l.Dir, "gpuaas-agent")
	if err := l.Build(ctx, binary, "./cmd/gpuaas-agent"); err != nil {
		return nil, err
	}
	secrets := filepath.Join(l.Dir, "crowd")
	server, err := l.Part(ctx, "listener", listenerVariable, listenerParameters{nodeAPI, secrets})
	if err != nil {
		return nil, err
	}
	defer server.End()
	address, err := server.Do("address")
	if err != nil {
		return nil, err
	}
	state := filepath.Join(l.Dir, "idle-agent")
	if err := enrolledNode(ctx, secrets, state); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "run", "--server", "https://"+address.Text, "--state-dir", state, //nolint:gosec // ours
		"--ca-file", filepath.Join(state, "ca.pem"), "--driver", "sim", "--profile", "h100-8")
	cmd.Stderr = l.Log
	lab.Gentle(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the agent: %w", err)
	}
	rest := restTime
	if l.Smoke {
		rest /= 10
	}
	lab.Wait(ctx, rest)
	mib := lab.Resident(cmd.Process.Pid)
	before, _ := lab.StatOf(cmd.Process.Pid)
	lab.Wait(ctx, rest)
	after, _ := lab.StatOf(cmd.Process.Pid)
	_ = cmd.Cancel()
	_ = cmd.Wait() // it was ordered to end
	r := lab.Row{ID: "F5", Path: "the agent at idle, resident", Unit: " MiB", Ours: mib, Peer: 15, Ratio: mib / 15}
	r.Min, r.Max = r.Ratio, r.Ratio
	r.Note = fmt.Sprintf("network process and helper in one process, on a simulated node; %.1f ms of CPU a second", 1000*(after.Cpu-before.Cpu)/rest.Seconds())
	return []lab.Row{r.AtMost(1)}, nil
}

// restTime is the time until the first reports are sent, plus enough time to measure an idle CPU.
const restTime = 12 * time.Second

// enrolledNode writes the files of an enrolment to state.
func enrolledNode(ctx context.Context, secrets, state string) error {
	ca, err := pki.Open(secrets, clock.Clock{})
	if err != nil {
		return err
	}
	keys, err := secret.OpenSigner(filepath.Join(secrets, "keys"))
	if err != nil {
		return err
	}
	key, csr, err := enrol.NewKey()
	if err != nil {
		return err
	}
	node := ids.New[ids.Node]()
	made, err := ca.Issue(ctx, []byte(csr), pki.Name{Domain: trustDomain, Kind: "node", ID: node.String()}.URI(), time.Hour)
	if err != nil {
		return err
	}
	who, err := enrol.From(protocol.EnrolReply{
		Node: node, Certificate: string(made.Chain), NotAfter: made.NotAfter, Trust: protocol.Trust{CAs: string(ca.Bundle()), TaskKeys: keys.Public()},
	}, key, enrol.Identity{})
	if err != nil {
		return err
	}
	if _, err := tls.X509KeyPair(made.Chain, []byte(key)); err != nil {
		return fmt.Errorf("pairing: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("making the agent's folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(state, "ca.pem"), ca.Bundle(), 0o600); err != nil {
		return fmt.Errorf("writing the authority: %w", err)
	}
	return who.Save(filepath.Join(state, "identity"))
}
