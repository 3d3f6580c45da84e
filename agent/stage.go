package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// The helper has no network. The network process downloads the build of an update and stores it here.
// The helper verifies the build, because it does not trust this folder.

// stageWithin is less than the limit of the whole update. Afterwards the task goes to the helper without
// the build, and the helper rejects it with the reason.
const stageWithin = 100 * time.Second

// buildsIn returns the folder of downloaded builds. It belongs to the network process.
func (c Config) buildsIn() string { return filepath.Join(c.identityDir(), "builds") }

// staging contains the present downloads.
type staging struct {
	mu   sync.Mutex
	busy map[string]bool // by digest
}

// stage reports whether the task waits for its build. It delivers the task once the build is
// downloaded.
func (n *node) stage(ctx context.Context, task protocol.Signed) bool {
	var params struct {
		Type   protocol.Type              `json:"type"`
		Params protocol.AgentUpdateParams `json:"params"`
	}
	// The signature is not verified: the network process only needs to know which build to download. The
	// helper verifies the task.
	if n.Socket == "" || json.Unmarshal(task.Body, &params) != nil || params.Type != protocol.AgentUpdate {
		return false
	}
	p := params.Params
	if raw, err := hex.DecodeString(p.Digest); err != nil || len(raw) != sha256.Size || p.Size <= 0 || p.Size > protocol.MaxBinary {
		return false
	}
	if info, err := os.Lstat(filepath.Join(n.buildsIn(), p.Digest)); err == nil && info.Size() == p.Size {
		return false
	}
	n.staging.mu.Lock()
	defer n.staging.mu.Unlock()
	if n.staging.busy[p.Digest] {
		return true
	}
	if n.staging.busy == nil {
		n.staging.busy = map[string]bool{}
	}
	n.staging.busy[p.Digest] = true
	go n.fetch(ctx, p, task)
	return true
}

// fetch downloads the build and delivers the task with or without it.
func (n *node) fetch(ctx context.Context, p protocol.AgentUpdateParams, task protocol.Signed) {
	within, cancel := context.WithTimeout(ctx, stageWithin)
	defer cancel()
	var wait backoff
	err := n.download(within, p)
	for err != nil && within.Err() == nil {
		n.log.WarnContext(ctx, "build not fetched", "version", p.Version, "err", err)
		pause(within, wait.next())
		err = n.download(within, p)
	}
	// The release may be signed with a new key that this node has not received yet.
	if err := n.refreshTrust(ctx); err != nil && ctx.Err() == nil {
		n.log.WarnContext(ctx, "trust not refreshed", "err", err)
	}
	if ctx.Err() == nil {
		n.handOver(ctx, task)
	}
	n.staging.mu.Lock()
	defer n.staging.mu.Unlock()
	delete(n.staging.busy, p.Digest)
}

// download stores the build under its digest and deletes all other builds.
func (n *node) download(ctx context.Context, p protocol.AgentUpdateParams) error {
	dir := n.buildsIn()
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clearing builds: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	f, err := os.CreateTemp(dir, ".build.*")
	if err != nil {
		return fmt.Errorf("fetching the build: %w", err)
	}
	sum := sha256.New()
	err = n.client.Load().Build(ctx, p.Digest, p.Size, io.MultiWriter(f, sum))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != p.Digest {
		return errors.New("the digest of the downloaded build does not match")
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, p.Digest)); err != nil {
		return fmt.Errorf("fetching the build: %w", err)
	}
	return nil
}
