package nodeapi

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const host = "Host: node\r\n"

func TestAnswersOneAfterAnother(t *testing.T) {
	t.Parallel()
	b := setupTransport(t, nil)
	c := b.dial()
	for i := range 3 {
		c.send(fmt.Sprintf("POST /%d HTTP/1.1\r\n%scontent-length:  5\t\r\n\r\nhello", i, host))
		if status, body, last := c.hear(); status != 200 || body != fmt.Sprintf("saw POST /%d hello", i) || last {
			t.Errorf("%d %q %v", status, body, last)
		}
	}
	c.send("GET /none HTTP/1.1\r\n" + host + "\r\n")
	if status, body, last := c.hear(); status != 204 || body != "" || last {
		t.Errorf("%d %q %v", status, body, last)
	}
	c.send("GET /end HTTP/1.1\r\n" + host + "Connection: keep-alive, Close\r\n\r\n")
	if status, _, last := c.hear(); status != 200 || !last || !c.silent() {
		t.Errorf("%d, last %v", status, last)
	}
}

// net/http's own client finds nothing odd, with bodies of either kind.
func TestTheStandardClientUnderstands(t *testing.T) {
	t.Parallel()
	b := setupTransport(t, nil)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: b.config}}
	t.Cleanup(client.CloseIdleConnections)
	for path, want := range map[string]int{"/large": 100 << 10, "/announced": 100 << 10, "/a?b=c": len("saw POST /a some")} {
		for range 3 {
			r, err := client.Post("https://"+b.addr+path, "text/plain", strings.NewReader("some"))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err != nil || len(text) != want || r.StatusCode != http.StatusOK {
				t.Errorf("%s: %d with %d bytes, %v", path, r.StatusCode, len(text), err)
			}
		}
		r, err := client.Head("https://" + b.addr + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, r.StatusCode)
		}
	}
	r, err := client.Get("https://" + b.addr + "/short")
	if err == nil {
		_, err = io.ReadAll(r.Body)
		r.Body.Close()
	}
	if err == nil {
		t.Error("half an answer passes for a whole one")
	}
	if r, err := client.Get("https://" + b.addr + "/panic"); err == nil {
		r.Body.Close()
		t.Errorf("a panic answers %d", r.StatusCode)
	}
}

// Who is slow is cut off, wherever: in the handshake, in the head, between two
// requests, and when taking the answer.
func TestSlowPeersAreCutOff(t *testing.T) {
	t.Parallel()
	const short = 200 * time.Millisecond
	t.Run("handshake", func(t *testing.T) {
		t.Parallel()
		b := setupTransport(t, func(s *transport) { s.handshakeWithin = short })
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte{0x16, 3, 1})
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
	for name, text := range map[string]string{"idle": "", "head": "GET / HTTP/1.1\r\nA: b", "first byte": "G"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupTransport(t, func(s *transport) { s.idleFor, s.headerWithin = short, short })
			w := b.dial()
			w.send(text)
			got, err := io.ReadAll(w.r) // net/http reads half a first line as a bad request
			if err != nil || len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	t.Run("answer", func(t *testing.T) {
		t.Parallel()
		done := make(chan error, 1)
		b := setupTransport(t, func(s *transport) {
			s.writeWithin = short
			s.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				var err error
				for err == nil {
					_, err = w.Write(make([]byte, 1<<20))
				}
				done <- err
			})
		})
		b.dial().send("GET / HTTP/1.1\r\n" + host + "\r\n")
		select {
		case err := <-done:
			if err == nil {
				t.Error("it read all of it")
			}
		case <-time.After(10 * time.Second):
			t.Error("still writing to one who does not read")
		}
	})
}

// A body that is never sent ends with the deadline that the handler sets, or with
// the connection.
func TestTornBodies(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	b := setupTransport(t, func(s *transport) {
		s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, err := io.ReadAll(r.Body)
			read <- err
		})
	})
	w := b.dial()
	w.send("POST / HTTP/1.1\r\n" + host + "Content-Length: 100\r\n\r\nabc")
	if err := <-read; err == nil {
		t.Error("half a body passes for a whole one")
	}
	if _, _, last := w.hear(); !last {
		t.Error("the rest could be parsed as a request")
	}
	w = b.dial()
	w.send("POST / HTTP/1.1\r\n" + host + "Content-Length: 100\r\n\r\nabc")
	w.Close()
	if err := <-read; err == nil {
		t.Error("half a body passes for a whole one")
	}
}

// TestUnreadBodiesEnd sends the header of a request with a body and nothing more. net/http waits for the
// body when the handler has left it unread.
func TestUnreadBodiesEnd(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			b := setupTransport(t, func(s *transport) {
				s.bodyWithin = 100 * time.Millisecond
				s.handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			})
			w := b.dial()
			w.send(method + " / HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\n")
			ended := make(chan struct{})
			go func() { _, _ = io.Copy(io.Discard, w.r); close(ended) }()
			select {
			case <-ended:
			case <-time.After(4 * time.Second):
				t.Error("the connection is still open")
			}
		})
	}
}

// TestOptionsReachTheHandler sends OPTIONS *, which net/http would answer with 200 before any check.
func TestOptionsReachTheHandler(t *testing.T) {
	t.Parallel()
	b := setupTransport(t, func(s *transport) {
		s.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	})
	w := b.dial()
	w.send("OPTIONS * HTTP/1.1\r\n" + host + "\r\n")
	if status, _, _ := w.hear(); status != http.StatusTeapot {
		t.Errorf("status %d", status)
	}
}

// TestChangesOutliveTheirCaller closes the connection of a change and of a download while they run. The
// caller repeats a change and must find its effect, so only the download is canceled.
func TestChangesOutliveTheirCaller(t *testing.T) {
	t.Parallel()
	for method, canceled := range map[string]bool{http.MethodPost: false, http.MethodGet: true} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			started, result := make(chan struct{}), make(chan bool, 1)
			b := setupTransport(t, func(s *transport) {
				s.handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					close(started)
					select {
					case <-r.Context().Done():
						result <- true
					case <-time.After(time.Second):
						result <- false
					}
				})
			})
			w := b.dial()
			w.send(method + " / HTTP/1.1\r\n" + host + "\r\n")
			<-started
			w.Close()
			if got := <-result; got != canceled {
				t.Errorf("canceled %t, expected %t", got, canceled)
			}
		})
	}
}

// TestAPanicInAParkedResponse closes its connection. The server serves the others.
func TestAPanicInAParkedResponse(t *testing.T) {
	t.Parallel()
	b := setupTransport(t, nil)
	w := b.dial()
	w.send("GET /park HTTP/1.1\r\n" + host + "\r\n")
	(<-b.parked).resume(func(http.ResponseWriter) { panic("a fault of the test") })
	if rest, err := io.ReadAll(w.r); len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	w = b.dial()
	w.send("GET /park HTTP/1.1\r\n" + host + "\r\n")
	(<-b.parked).resume(func(w http.ResponseWriter) { _, _ = io.WriteString(w, "later") })
	if status, body, _ := w.hear(); status != 200 || body != "later" {
		t.Error(status, body)
	}
}

// A parked answer is given once, by anybody, before or after the handler returns;
// the connection serves on.
func TestParking(t *testing.T) {
	t.Parallel()
	b := setupTransport(t, nil)
	w := b.dial()
	for range 50 {
		w.send("GET /park HTTP/1.1\r\n" + host + "\r\n")
		p := <-b.parked // the response races with the end of the handler
		go p.resume(func(w http.ResponseWriter) { _, _ = io.WriteString(w, "later") })
		if status, body, last := w.hear(); status != 200 || body != "later" || last {
			t.Fatal(status, body, last)
		}
	}
	w.send("GET /park HTTP/1.1\r\n" + host + "\r\n")
	p := <-b.parked
	if p.gone() {
		t.Error("gone while it waits")
	}
	w.Close()
	for begin := time.Now(); !p.gone(); {
		if time.Since(begin) > 5*time.Second {
			t.Fatal("the server does not notice that the peer closed the connection")
		}
	}
	p.resume(func(http.ResponseWriter) {})
	w = b.dial()
	w.send("GET /still HTTP/1.1\r\n" + host + "\r\n")
	if status, _, _ := w.hear(); status != 200 {
		t.Error(status)
	}
}

// The end: what is being answered is, what is idle is closed, what is parked waits
// for its answer.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := setupTransport(t, nil)
	idle, parked, fresh := b.dial(), b.dial(), b.dial()
	parked.send("GET /park HTTP/1.1\r\n" + host + "\r\n")
	p := <-b.parked
	idle.send("GET / HTTP/1.1\r\n" + host + "\r\n")
	idle.hear()
	b.stop()
	if !idle.silent() || !fresh.silent() {
		t.Error("an idle connection is still open")
	}
	if c, err := net.Dial("tcp", b.addr); err == nil {
		c.Close()
		t.Error("it still listens")
	}
	p.resume(func(w http.ResponseWriter) { _, _ = io.WriteString(w, "later") })
	if _, body, last := parked.hear(); body != "later" || !last || !parked.silent() {
		t.Error(body, last)
	}
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
	b.ended <- nil
}

func TestDrainHasAnEnd(t *testing.T) {
	t.Parallel()
	b := setupTransport(t, func(s *transport) { s.drainFor = 50 * time.Millisecond })
	w := b.dial()
	w.send("GET /park HTTP/1.1\r\n" + host + "\r\n")
	<-b.parked
	b.stop()
	if !w.silent() {
		t.Error("still open")
	}
	if err := <-b.ended; err == nil {
		t.Error("a response that was cut off causes no error")
	}
	b.ended <- nil
}

// Many handshakes at once leave time for open connections.
func TestStormLeavesTimeForOthers(t *testing.T) {
	t.Parallel()
	b := setupTransport(t, func(s *transport) { s.handshakeWithin, s.idleFor = time.Minute, time.Minute })
	silent := make([]net.Conn, 50)
	for i := range silent { // a silent connection delays no other one
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent[i] = c
	}
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			c, err := tls.Dial("tcp", b.addr, b.config)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "GET /storm HTTP/1.1\r\n"+host+"\r\n")
			if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != http.StatusOK {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A peer that sends ahead gets the response of its poll. Its connection then ends, because the server
// that would accept it again does not see the bytes that were read.
func TestRequestAfterAPoll(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"next request": "GET /park HTTP/1.1\r\n" + host + "\r\nGET /hidden HTTP/1.1\r\n" + host + "\r\n",
		"body":         "GET /park HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\nbody",
		"old protocol": "GET /park HTTP/1.0\r\n" + host + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupTransport(t, nil)
			w := b.dial()
			w.send(text)
			(<-b.parked).resume(func(w http.ResponseWriter) { _, _ = io.WriteString(w, "later") })
			if status, body, last := w.hear(); status != 200 || body != "later" || !last || b.saw() != "" {
				t.Error(status, body, last, b.saw())
			}
		})
	}
}

// A connection is idle after the response of its poll for as long as after any other response, and the
// next request has the time of a request.
func TestIdleAfterAPoll(t *testing.T) {
	t.Parallel()
	b := setupTransport(t, func(s *transport) { s.headerWithin = 100 * time.Millisecond })
	w := b.dial()
	time.Sleep(300 * time.Millisecond)
	for range 2 {
		w.send("GET /park HTTP/1.1\r\n" + host + "\r\n")
		(<-b.parked).resume(func(w http.ResponseWriter) { _, _ = io.WriteString(w, "later") })
		if status, _, last := w.hear(); status != 200 || last {
			t.Fatal(status, last)
		}
		time.Sleep(300 * time.Millisecond)
	}
	w.send("GET / HTTP/1.1\r\nHost:")
	if !w.silent() {
		t.Error("half a header has more time than a header")
	}
}

// A head above the limit is rejected before the handler, and so is one that two readers could read in
// two ways. Nothing that follows becomes a request.
func TestBadHeadersAreRejected(t *testing.T) {
	t.Parallel()
	const hidden = "GET /hidden HTTP/1.1\r\n" + host + "\r\n"
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"two lengths":        {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nContent-Length: 0\r\n\r\nabcd" + hidden, 400},
		"odd coding":         {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n" + hidden, 501},
		"negative length":    {"POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n" + hidden, 400},
		"space before colon": {"POST / HTTP/1.1\r\n" + host + "Content-Length : 4\r\n\r\nabcd" + hidden, 400},
		"no host":            {"GET / HTTP/1.1\r\n\r\n" + hidden, 400},
		"two hosts":          {"GET / HTTP/1.1\r\n" + host + host + "\r\n" + hidden, 400},
		"value with NUL":     {"GET / HTTP/1.1\r\n" + host + "A: a\x00b\r\n\r\n" + hidden, 400},
		"another version":    {"GET / HTTP/3.0\r\n" + host + "\r\n" + hidden, 505},
		"large header":       {"GET / HTTP/1.1\r\n" + host + strings.Repeat("A: "+strings.Repeat("a", 1<<10)+"\r\n", 24) + "\r\n" + hidden, 431},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupTransport(t, nil)
			w := b.dial()
			w.send(c.text)
			r, err := http.ReadResponse(w.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			if r.StatusCode != c.status || !r.Close || b.saw() != "" {
				t.Errorf("%d, last %v; the handler saw %q", r.StatusCode, r.Close, b.saw())
			}
		})
	}
}
