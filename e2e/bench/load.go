package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// loadVariable carries a loadOrder to the process that sends it.
const loadVariable = "GPUAAS_BENCH_LOAD"

type loadOrder struct {
	Address                     string
	Count, Connections, Tenants int
	Keys                        string // what the idempotency keys begin with
}

type loadResult struct {
	Took   time.Duration
	Failed int
	Such   string // the first refusal
}

// loadProcess sends creates over connections that stay open. It speaks HTTP/1.1
// by hand: a client library would take from the server's cores what a load
// generator written for the purpose does not.
func loadProcess(ctx context.Context) error {
	var o loadOrder
	if err := json.Unmarshal([]byte(os.Getenv(loadVariable)), &o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	conns := make([]net.Conn, o.Connections)
	for i := range conns {
		var err error
		if conns[i], err = (&net.Dialer{}).DialContext(ctx, "tcp", o.Address); err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
	}
	results := make([]loadResult, o.Connections)
	var all sync.WaitGroup
	began := clock.Clock{}.Now()
	for i, conn := range conns {
		all.Go(func() { results[i] = o.send(conn, i) })
	}
	all.Wait()
	sum := loadResult{Took: clock.Clock{}.Now().Sub(began)}
	for _, r := range results {
		sum.Failed += r.Failed
		if sum.Such == "" {
			sum.Such = r.Such
		}
	}
	return json.NewEncoder(os.Stdout).Encode(sum)
}

const createBody = `{"sku":"` + sku + `","gpus":1}`

// send is one connection's share: the k-th create is for tenant k modulo their
// number, as the peer has it.
func (o loadOrder) send(conn net.Conn, share int) (r loadResult) {
	in := bufio.NewReader(conn)
	var out bytes.Buffer
	for k := share; k < o.Count; k += o.Connections {
		tenant := k % o.Tenants
		out.Reset()
		fmt.Fprintf(&out, "POST /api/v1/allocations HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Project-ID: %s%d\r\nX-Idempotency-Key: %s-%d\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			o.Address, token(tenant), projectPrefix, int64(first)+int64(tenant), o.Keys, k, len(createBody), createBody)
		_, err := conn.Write(out.Bytes())
		var said []byte
		if err == nil {
			said, err = answer(in)
		}
		if err != nil {
			r.Failed++
			if r.Such == "" {
				r.Such = err.Error() + " " + string(said)
			}
		}
	}
	return r
}

// answer reads one response and refuses what is not 201.
func answer(in *bufio.Reader) (body []byte, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("reading an answer: %w", err)
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 201")) {
		err = errors.New(string(bytes.TrimSpace(line)))
	}
	length := 0
	for {
		line, broken := in.ReadSlice('\n')
		if broken != nil {
			return nil, fmt.Errorf("reading an answer: %w", broken)
		}
		if len(line) <= 2 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("content-length")) {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value))) // 0 shows as a broken next answer
		}
	}
	if err == nil {
		_, broken := in.Discard(length)
		return nil, broken
	}
	body = make([]byte, length)
	_, _ = io.ReadFull(in, body) // the refusal is the error
	return body, err
}
