package api

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
)

const (
	// sealedBytes is more than the response to a create has.
	sealedBytes = 2048
	seals       = 20_000
	mostAdded   = 1.03
)

// addEnvelope returns the row A1-envelope: the CPU time of a create whose stored response is sealed and opened
// once, relative to the create of A1. No create contains a secret; a response with one costs this in addition.
func addEnvelope(a1 lab.Row) (lab.Row, error) {
	ring, err := envelope.NewRing(map[string][]byte{"fields-0001": envelope.NewKey()}, "fields-0001")
	if err != nil {
		return lab.Row{}, err
	}
	body := bytes.Repeat([]byte("x"), sealedBytes)
	began := clock.Clock{}.Now()
	for n := range seals {
		at := envelope.Place{Table: "idempotency_keys", Column: "body", Row: fmt.Sprintf("00000000-0000-0000-0000-000000000000 POST /api/v1/allocations %d", n)}
		if _, err := ring.Open(ring.Seal(body, at), at); err != nil {
			return lab.Row{}, err
		}
	}
	added := (clock.Clock{}).Now().Sub(began).Seconds() / seals
	create := a1.CPUOurs
	if create == 0 && a1.Ours > 0 {
		create = lab.Connections / a1.Ours
	}
	micros := float64(time.Second / time.Microsecond)
	ratio := (create + added) / create
	return lab.Row{
		ID: "A1-envelope", Path: "CPU of a create of A1 with a sealed and opened response of 2 KiB / without", Unit: " µs",
		Ours: (create + added) * micros, Peer: create * micros, Ratio: ratio, Min: ratio, Max: ratio,
		Note: fmt.Sprintf("an envelope adds %s µs", lab.Number(added*micros)),
	}.AtMost(mostAdded), nil
}
