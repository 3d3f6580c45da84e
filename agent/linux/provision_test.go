package linux_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/agent/linux/probe"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/protocol"
)

// TestMain turns this binary into the probe when a tenant's session starts it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == probe.InsideCommand {
		if err := probe.Inside(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == exchange {
		if err := doExchange(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// disposable skips a test that changes the host OS, except in a container of the rig.
func disposable(t *testing.T) {
	t.Helper()
	if os.Getenv("GPUAAS_DISPOSABLE_HOST") != "1" {
		t.Skip("changes the host OS: go test -tags 'e2e nomsgpack' -run Inside ./e2e/host runs it in a container")
	}
}

// node is the local computer as a node. The tests that need it run only in containers of the rig, one after the other.
func node(t *testing.T) *linux.Host {
	t.Helper()
	disposable(t)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &linux.Host{Agent: binary, Scrubber: "/usr/bin/true", Log: slog.New(slog.DiscardHandler)}
}

// uids are different for each task of the tests: leftovers of one must not help another, and keys in the kernel are
// shared by containers.
var uids = 310000 + 100*(os.Getpid()%1000)

func paramsOf(t *testing.T, h *linux.Host, gpus ...int) protocol.AllocationParams {
	t.Helper()
	s, err := h.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	uids++
	o := protocol.AllocationParams{User: fmt.Sprintf("u%d", uids), UID: uids, PublicKeys: []string{newKey(t)}, Principal: uuid.NewString(), Limits: protocol.Limits{HomeGiB: 1}}
	for _, i := range gpus {
		o.GPUs = append(o.GPUs, s.GPUs[i].UUID)
	}
	slices.Sort(o.GPUs)
	t.Cleanup(func() { takeAway(h, o) })
	return o
}

func newKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// takeAway removes the tenant, whatever is left.
func takeAway(h *linux.Host, o protocol.AllocationParams) {
	ctx := context.Background()
	_ = h.BlockLogin(ctx, o.User, o.UID)
	_ = exec.Command("loginctl", "terminate-user", o.User).Run()
	_ = exec.Command("pkill", "-9", "-U", fmt.Sprint(o.UID)).Run()
	_ = h.RemoveHome(ctx, o.User, o.UID)
	_ = h.RemoveAccount(ctx, o.User, o.UID)
	_ = h.RemoveSlice(ctx, o.User, o.UID)
	_ = h.RemoveNet(ctx, o.User, o.UID)
	_ = h.RemoveLogin(ctx, o.User, o.UID)
}

// carry does what the runner does with a task.
func carry(ctx context.Context, h step.Host, kind protocol.Type, o protocol.AllocationParams) (*protocol.Proof, error) {
	proof := &protocol.Proof{}
	for _, step := range task.Steps(kind) {
		if err := runStep(ctx, h, step, o, proof); err != nil {
			return proof, fmt.Errorf("%s: %w", step.Name, err)
		}
	}
	return proof, nil
}

func runStep(ctx context.Context, h step.Host, step step.Step, o protocol.AllocationParams, proof *protocol.Proof) error {
	done, err := step.Check(ctx, h, o)
	if err != nil {
		return err
	}
	if !done {
		if err := step.Do(ctx, h, o); err != nil {
			return err
		}
		if step.Verify != nil {
			if err := step.Verify(ctx, h, o); err != nil {
				return err
			}
		}
	}
	if step.Prove != nil {
		return step.Prove(ctx, h, o, proof)
	}
	return nil
}

func TestProvision(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	o := paramsOf(t, h, 1)
	proof, err := carry(t.Context(), h, protocol.ProvisionUser, o)
	for _, p := range proof.Probes {
		t.Logf("%-60s want %-12s got %s", p.Name, p.Expected, p.Got)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if wrong := step.Differences(s, o); len(wrong) > 0 {
		t.Error(wrong)
	}
	t.Logf("%+v", proof.Keys)
	t.Logf("%+v", s.Accounts)
}
