package nodeapi_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"testing"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// INV-46: only the helper of the node can prove that a slot is clean, and only of
// this allocation at this fence.
func TestINV46OnlyASignedProofCounts(t *testing.T) {
	t.Parallel()
	i := setupIntake(t)
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const gpu = "GPU-1"
	i.must(i.report(i.node, 1, gpu))
	boot := int64(1)
	// report returns whether a release at fence 3 counts once it was reported.
	report := func(enrolled []byte, change func(*protocol.Proof), sign ed25519.PrivateKey, after func(*protocol.Proof)) (proven bool) {
		t.Helper()
		if _, err := i.DB.Exec(t.Context(), `UPDATE nodes SET proof_key = $2 WHERE id = $1`, i.node, enrolled); err != nil {
			t.Fatal(err)
		}
		id := i.place(gpu)
		defer i.exec(`UPDATE slot_claims SET period = tstzrange(lower(period), lower(period) + interval '1 microsecond') WHERE upper_inf(period)`)
		p := &protocol.Proof{Node: i.node, Allocation: id, Type: protocol.RevokeUser, Fence: 3, UID: 200001, Checks: []string{"accounts"}, Leftovers: []string{}, Scrubbed: []string{gpu}}
		change(p)
		if sign != nil {
			if err := p.Sign(sign); err != nil {
				t.Fatal(err)
			}
		}
		after(p)
		boot++
		r := protocol.Report{Boot: boot, Sequence: 1, Complete: true, Allocations: []protocol.AllocationReport{{Allocation: id, Phase: protocol.Gone, Fence: 3, Proof: p}}}
		if err := i.Report(t.Context(), i.node, r); err != nil {
			t.Fatal(err)
		}
		var phase string
		if err := i.DB.QueryRow(t.Context(), `SELECT proof IS NOT NULL, phase FROM observed_allocations WHERE allocation_id = $1`, id).Scan(&proven, &phase); err != nil {
			t.Fatal(err)
		}
		if !proven && phase != string(protocol.Broken) {
			t.Errorf("not proven, and %s", phase)
		}
		return proven
	}
	none := func(*protocol.Proof) {}
	if !report(public, none, key, none) {
		t.Fatal("the node's own proof does not count")
	}
	for rule, x := range map[string]struct {
		enrolled []byte
		change   func(*protocol.Proof)
		sign     ed25519.PrivateKey
		after    func(*protocol.Proof)
	}{
		"unsigned":             {public, none, nil, none},
		"signed by another":    {public, none, stranger, none},
		"named as the node's":  {public, none, stranger, func(p *protocol.Proof) { p.Kid = protocol.KidOf(public) }},
		"another node's":       {public, func(p *protocol.Proof) { p.Node = ids.New[ids.Node]() }, key, none},
		"another allocation's": {public, func(p *protocol.Proof) { p.Allocation = ids.New[ids.Allocation]() }, key, none},
		"of another fence":     {public, func(p *protocol.Proof) { p.Fence = 2 }, key, none},
		"of a provisioning":    {public, func(p *protocol.Proof) { p.Type = protocol.ProvisionUser }, key, none},
		"with another GPU":     {public, none, key, func(p *protocol.Proof) { p.Scrubbed = append(p.Scrubbed, "GPU-2") }},
		"without a leftover":   {public, func(p *protocol.Proof) { p.Leftovers = []string{"/home/t-1"} }, key, func(p *protocol.Proof) { p.Leftovers = []string{} }},
		"a bit turned":         {public, none, key, func(p *protocol.Proof) { p.Signature[7] ^= 4 }},
		"enrolled without key": {nil, none, key, none},
		"enrolled again":       {other, none, key, none},
	} {
		if report(x.enrolled, x.change, x.sign, x.after) {
			t.Errorf("%s: counts", rule)
		}
	}
}
