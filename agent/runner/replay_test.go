package runner_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// envelopes counts the attacked tasks; GPUAAS_ENVELOPES raises it, and with it
// the bits of each that are turned.
func envelopes(t *testing.T) (n int, everyBit bool) {
	t.Helper()
	n = 1000
	if text := os.Getenv("GPUAAS_ENVELOPES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		everyBit = true
	}
	return n, everyBit
}

// INV-42: a thousand tasks with bits turned, signatures exchanged, and bodies encoded
// again. The first one is tried with every bit.
func TestINV42AThousandEnvelopes(t *testing.T) {
	t.Parallel()

	b := setup(t)
	before := b.simHost().Version
	n, everyBit := envelopes(t)
	const whole, sample = 1, 3
	r := rand.New(rand.NewPCG(42, 42))
	refused := func(what string, s protocol.Signed) {
		t.Helper()
		if a := b.Receive(s); a.Rejection == nil || a.Reply != nil || a.InHand {
			t.Fatalf("%s: %+v", what, a)
		}
	}
	var last protocol.Signed
	for i := range n {
		var e protocol.Envelope
		if i%2 == 0 {
			e = b.provision(ids.New[ids.Allocation](), int64(i+1), b.gpus[i%4])
		} else {
			e = b.revoke(ids.New[ids.Allocation](), int64(i+1), b.gpus[i%4])
		}
		s := b.sign(e)
		for _, part := range [][]byte{s.Body, s.Signature} {
			bits := r.Perm(len(part) * 8)
			if !everyBit && i >= whole {
				bits = bits[:sample]
			}
			for _, bit := range bits {
				part[bit/8] ^= 1 << (bit % 8)
				refused("bit "+strconv.Itoa(bit), s)
				part[bit/8] ^= 1 << (bit % 8)
			}
		}
		if last.Body != nil {
			refused("another's signature", protocol.Signed{Body: s.Body, Signature: last.Signature})
		}
		var loose map[string]any
		if err := json.Unmarshal(s.Body, &loose); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(loose)
		if err != nil {
			t.Fatal(err)
		}
		refused("encoded again", protocol.Signed{Body: again, Signature: s.Signature})
		refused("with a space", protocol.Signed{Body: append(bytes.Clone(s.Body), ' '), Signature: s.Signature})
		last = s
	}
	b.untouched("attacked", before)
}

// history executes tasks: several tenants are provisioned and released, and two stay.
func (b *bundle) history(rounds int) (tasks []protocol.Signed) {
	b.t.Helper()
	do := func(e protocol.Envelope) {
		b.t.Helper()
		if r := b.do(e); r.Outcome != protocol.Succeeded {
			b.t.Fatalf("%+v", r)
		}
		tasks = append(tasks, b.sign(e))
	}
	for range rounds {
		id := ids.New[ids.Allocation]()
		do(b.provision(id, 1, b.gpus[0]))
		do(b.revoke(id, 2, b.gpus[0]))
	}
	do(b.provision(ids.New[ids.Allocation](), 1, b.gpus[1]))
	return tasks
}

// INV-43: after a kill, all that was executed is sent again: nothing is done twice.
func TestINV43ReplayAfterAKill(t *testing.T) {
	t.Parallel()

	b := setup(t)
	tasks := b.history(10)
	b.restart()
	before := b.simHost().Version
	for range 2 {
		for _, s := range tasks {
			if a := b.Receive(s); a.InHand || a.Rejection == nil && a.Reply == nil {
				t.Errorf("%+v", a)
			}
		}
		b.restart()
	}
	if now := b.simHost().Version; now != before {
		t.Errorf("replays acted: the node is at version %d, was at %d", now, before)
	}
}

// INV-43: an old disk image. While the node runs, the record in memory is newer and everything is rejected; after a
// start of the node, everything is rejected that was signed before it.
func TestINV43AnOldDiskImage(t *testing.T) {
	t.Parallel()

	for rule, machineStarts := range map[string]bool{"the node runs on": false, "the node starts": true} {
		b := setup(t)
		b.anchor = filepath.Join(t.TempDir(), "anchor")
		b.restart()
		b.do(b.provision(ids.New[ids.Allocation](), 1, b.gpus[2]))
		image := t.TempDir()
		if err := os.CopyFS(filepath.Join(image, "journal"), os.DirFS(filepath.Join(b.dir, "journal"))); err != nil {
			t.Fatal(err)
		}
		tasks := b.history(10)
		late := b.provision(ids.New[ids.Allocation](), 1, b.gpus[3]) // signed, and never delivered before
		tasks = append(tasks, b.sign(late))

		b.stop()
		b.Wait()
		journalDir := filepath.Join(b.dir, "journal")
		if err := os.RemoveAll(journalDir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(journalDir, os.DirFS(filepath.Join(image, "journal"))); err != nil {
			t.Fatal(err)
		}
		want := protocol.JournalLost
		if machineStarts {
			if err := os.Remove(b.anchor); err != nil {
				t.Fatal(err)
			}
			b.now, want = b.now.Add(20*time.Second), protocol.Replayed // all tasks are still fresh
		}
		b.start(b.Node, b.Host)
		before := b.simHost().Version
		for _, s := range tasks {
			if a := b.Receive(s); protocol.CodeOf(a.Rejection) != want {
				t.Errorf("%s: %+v", rule, a)
			}
		}
		if now := b.simHost().Version; now != before {
			t.Errorf("%s: an old disk acted", rule)
		}
		if !machineStarts {
			continue
		}
		b.now = b.now.Add(time.Second)
		if r := b.do(b.provision(ids.New[ids.Allocation](), 1, b.gpus[3])); r.Outcome != protocol.Succeeded {
			t.Errorf("%s: a task of today: %+v", rule, r)
		}
	}
}
