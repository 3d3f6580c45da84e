package lab

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

// LoadVariable is the environment variable that passes a LoadParameters to the process that sends the
// load.
const LoadVariable = "GPUAAS_BENCH_LOAD"

// LoadParameters describes the requests to send. Request k belongs to tenant k modulo Tenants, as in the
// script of the peer of A1.
type LoadParameters struct {
	Address                     string
	Count, Connections, Tenants int
	// Paths are read in turn. If the list is empty, the process creates allocations.
	Paths []string `json:",omitempty"`
	// Folders makes it create folders of files instead, whose names are the keys.
	Folders bool `json:",omitempty"`
	// Keys is the prefix of the idempotency keys of creates. The keys repeat after Distinct
	// requests, or never if Distinct is 0.
	Keys     string
	Distinct int
}

type LoadResult struct {
	Took     time.Duration
	Failed   int
	Replayed int
	Such     string // the first error
}

// LoadProcess sends requests over persistent connections. It writes HTTP/1.1 itself: the server
// shares the cores with the load generator, and an HTTP client library would use more of them.
func LoadProcess(ctx context.Context) error {
	var o LoadParameters
	if err := json.Unmarshal([]byte(os.Getenv(LoadVariable)), &o); err != nil {
		return fmt.Errorf("reading the parameters: %w", err)
	}
	conns := make([]net.Conn, o.Connections)
	for i := range conns {
		var err error
		if conns[i], err = (&net.Dialer{}).DialContext(ctx, "tcp", o.Address); err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
	}
	results := make([]LoadResult, o.Connections)
	var all sync.WaitGroup
	began := clock.Clock{}.Now()
	for i, conn := range conns {
		all.Go(func() { results[i] = o.send(conn, i) })
	}
	all.Wait()
	sum := LoadResult{Took: clock.Clock{}.Now().Sub(began)}
	for _, r := range results {
		sum.Failed += r.Failed
		sum.Replayed += r.Replayed
		if sum.Such == "" {
			sum.Such = r.Such
		}
	}
	return json.NewEncoder(os.Stdout).Encode(sum)
}

const CreateBody = `{"sku":"` + Sku + `","gpus":1}`

// send sends every request of one connection.
func (o LoadParameters) send(conn net.Conn, share int) (r LoadResult) {
	in := bufio.NewReader(conn)
	var out bytes.Buffer
	for k := share; k < o.Count; k += o.Connections {
		out.Reset()
		o.write(&out, k)
		_, err := conn.Write(out.Bytes())
		var said answered
		if err == nil {
			said, err = answer(in)
		}
		if said.replayed {
			r.Replayed++
		}
		if err != nil {
			r.Failed++
			if r.Such == "" {
				r.Such = err.Error() + " " + string(said.body)
			}
		}
	}
	return r
}

// write appends request k to out.
func (o LoadParameters) write(out *bytes.Buffer, k int) {
	tenant := k % o.Tenants
	if len(o.Paths) > 0 {
		fmt.Fprintf(out, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", o.Paths[k%len(o.Paths)], o.Address, Token(tenant))
		return
	}
	if o.Distinct > 0 {
		k %= o.Distinct
	}
	path, body := "/api/v1/allocations", CreateBody
	if o.Folders {
		path, body = "/api/v1/storage/mkdir", fmt.Sprintf(`{"path":"%s-%d"}`, o.Keys, k)
	}
	fmt.Fprintf(out, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Project-ID: %s%d\r\nX-Idempotency-Key: %s-%d\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, o.Address, Token(tenant), ProjectPrefix, int64(First)+int64(tenant), o.Keys, k, len(body), body)
}

type answered struct {
	replayed bool
	body     []byte // body of an error response
}

// answer reads one response. A status other than 200 and 201 is an error.
func answer(in *bufio.Reader) (a answered, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return a, fmt.Errorf("reading an answer: %w", err)
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 20")) {
		err = errors.New(string(bytes.TrimSpace(line)))
	}
	length, chunked := 0, false
	for {
		line, broken := in.ReadSlice('\n')
		if broken != nil {
			return a, fmt.Errorf("reading an answer: %w", broken)
		}
		if len(line) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value))) // 0 makes the next response unreadable
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		case bytes.EqualFold(name, []byte("idempotency-replayed")):
			a.replayed = true
		}
	}
	if err != nil { // an error response, which is short
		a.body = make([]byte, length)
		_, _ = io.ReadFull(in, a.body) // the caller prints the body
		return a, err
	}
	if chunked {
		return a, skipChunks(in)
	}
	_, err = in.Discard(length)
	return a, err
}

// skipChunks reads a body with chunked transfer encoding.
func skipChunks(in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("reading an answer: %w", err)
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return fmt.Errorf("reading an answer: %w", err)
		}
		if _, err := in.Discard(int(size) + len("\r\n")); err != nil || size == 0 {
			return err
		}
	}
}
