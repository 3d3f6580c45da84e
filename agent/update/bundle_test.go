package update_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/update"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// build is a program that prints its version and ends.
func build(version string) []byte {
	says := []byte("gpuaas-agent " + version + ", envelope 1\n")
	code := []byte{0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0x48, 0x8d, 0x35}           // write, to 1,
	code = binary.LittleEndian.AppendUint32(code, 16)                              // what follows the code,
	code = binary.LittleEndian.AppendUint32(append(code, 0xba), uint32(len(says))) // this long
	code = append(code, 0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05)     // exit, with 0
	const headers, base = 64 + 56, 0x400000                                        // one segment contains all
	size := uint64(headers + len(code) + len(says))
	elf := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	for _, v := range []any{
		uint16(2), uint16(62), uint32(1), uint64(base + headers), uint64(64), uint64(0), uint32(0), uint16(64), uint16(56), uint16(1), uint16(64), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000),
	} {
		elf, _ = binary.Append(elf, binary.LittleEndian, v)
	}
	return append(append(elf, code...), says...)
}

// simulatedNode is a disk, a service manager, and the processes that it starts.
type simulatedNode struct {
	t    *testing.T
	dir  string
	keys map[string]ed25519.PrivateKey
	now  time.Time

	sick map[string]bool // builds that start, and are not heard of
	dead map[string]bool // builds that do not even start

	armed     bool
	restarted bool
	failure   error  // of the service manager
	ends      func() // its restart ends who requests it
	crashAt   string
	crashed   bool
}

type crash struct{}

func newNode(t *testing.T) *simulatedNode {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("its builds are for amd64")
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	h := &simulatedNode{t: t, dir: t.TempDir(), keys: map[string]ed25519.PrivateKey{"r1": key}, now: noon, sick: map[string]bool{}, dead: map[string]bool{}}
	for _, dir := range []string{"lib/a", "lib/b", "staging"} {
		must(t, os.MkdirAll(filepath.Join(h.dir, dir), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(h.dir, "lib/a", update.Binary), build("v1.0.0"), 0o700))
	must(t, os.Symlink("a", filepath.Join(h.dir, "lib/current")))
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Restart, Arm and Disarm are the service manager.
func (h *simulatedNode) Restart(context.Context) error {
	if h.ends != nil {
		h.ends()
		return errNoStart
	}
	h.restarted = h.failure == nil
	return h.failure
}
func (h *simulatedNode) Arm(context.Context) error    { h.armed = true; return nil }
func (h *simulatedNode) Disarm(context.Context) error { h.armed = false; return nil }

// process starts the target of the link.
func (h *simulatedNode) process(link string) *update.Updater {
	h.t.Helper()
	slot, err := os.Readlink(filepath.Join(h.dir, "lib", link))
	must(h.t, err)
	u := &update.Updater{
		Lib: filepath.Join(h.dir, "lib"), State: filepath.Join(h.dir, "state"), Staging: filepath.Join(h.dir, "staging"),
		Platform: "linux/amd64", Version: h.version(link), Slot: slot, Services: h,
		Keys: h.public, Clock: clock.At(func() time.Time { return h.now }), Log: slog.New(slog.DiscardHandler),
	}
	u.Reached(func(point string) {
		if point == h.crashAt && !h.crashed {
			h.crashed = true
			panic(crash{})
		}
	})
	return u
}

func (h *simulatedNode) public() map[string][]byte {
	keys := map[string][]byte{}
	for kid, key := range h.keys {
		keys[kid], _ = key.Public().(ed25519.PublicKey)
	}
	return keys
}

// version is of the build that a link names.
func (h *simulatedNode) version(link string) string {
	h.t.Helper()
	have, err := os.ReadFile(filepath.Join(h.dir, "lib", link, update.Binary))
	must(h.t, err)
	for _, v := range []string{"v0.9.0", "v1.0.0", "v1.1.0", "v1.2.0"} {
		if string(have) == string(build(v)) {
			return v
		}
	}
	return "none"
}

// release publishes a build and stages it.
func (h *simulatedNode) release(version, minimum string, change ...func(*protocol.Release)) update.Request {
	h.t.Helper()
	program := build(version)
	hash := sha256.Sum256(program)
	r := protocol.Release{
		V: protocol.ReleaseVersion, Kid: "r1", Version: version, Platform: "linux/amd64", Digest: hex.EncodeToString(hash[:]), Size: int64(len(program)),
		Minimum: minimum, IssuedAt: noon, ExpiresAt: noon.Add(time.Hour),
	}
	if r.Minimum == "" {
		r.Minimum = "v0.1.0"
	}
	for _, f := range change {
		f(&r)
	}
	h.stage(r.Digest, program)
	return h.request(r)
}

func (h *simulatedNode) stage(digest string, program []byte) {
	h.t.Helper()
	must(h.t, os.WriteFile(filepath.Join(h.dir, "staging", digest), program, 0o600))
}

func (h *simulatedNode) request(r protocol.Release) update.Request {
	h.t.Helper()
	metadata, err := r.Canonical()
	must(h.t, err)
	return update.Request{Task: ids.New[ids.Task](), Fence: 1, Params: protocol.AgentUpdateParams{
		Version: r.Version, Digest: r.Digest, Size: r.Size, Metadata: metadata, Signature: ed25519.Sign(h.keys["r1"], metadata),
	}}
}

// live runs the node until the task has a result: processes end and
// start, the guard fires, and a killed process is started again.
func (h *simulatedNode) live(o update.Request) error {
	h.t.Helper()
	for range 12 {
		if answered, err := h.life(o); answered {
			return err
		}
	}
	h.t.Fatal("the request is never answered")
	return nil
}

var errNoStart = errors.New("it does not start")

// life is that of one process, and of the guard where it is its turn.
func (h *simulatedNode) life(o update.Request) (answered bool, err error) {
	h.t.Helper()
	defer func() {
		if r := recover(); r != nil && r != (crash{}) {
			panic(r)
		}
	}()
	h.restarted = false
	version := h.version("current")
	if !h.dead[version] {
		u := h.process("current")
		done, err := u.Begin(h.t.Context(), o)
		if done || err != nil {
			return true, err
		}
		if h.restarted {
			return false, nil
		}
		if !h.sick[version] {
			must(h.t, u.HandleAck(h.t.Context(), version))
			return false, nil
		}
	}
	if !h.armed {
		h.t.Fatal("a build that is not heard of is tried without a guard")
	}
	h.now = h.now.Add(update.GateFor)
	_, err = h.process("previous").Guard(h.t.Context(), func(context.Context) string { return errNoStart.Error() })
	must(h.t, err)
	return false, nil
}

type ctx = context.Context

func (h *simulatedNode) staged(o update.Request) string {
	return filepath.Join(h.dir, "staging", o.Params.Digest)
}

// link has the staged build be a link to another file, with the right content.
func (h *simulatedNode) link(o update.Request) {
	h.t.Helper()
	must(h.t, os.Rename(h.staged(o), h.staged(o)+".other"))
	must(h.t, os.Symlink(h.staged(o)+".other", h.staged(o)))
}

// signed publishes a build that was changed before it was signed.
func (h *simulatedNode) signed(version string, change func([]byte) []byte) update.Request {
	h.t.Helper()
	program := change(build(version))
	hash := sha256.Sum256(program)
	h.stage(hex.EncodeToString(hash[:]), program)
	return h.request(protocol.Release{
		V: protocol.ReleaseVersion, Kid: "r1", Version: version, Platform: "linux/amd64", Digest: hex.EncodeToString(hash[:]), Size: int64(len(program)),
		Minimum: "v0.1.0", IssuedAt: noon, ExpiresAt: noon.Add(time.Hour),
	})
}
