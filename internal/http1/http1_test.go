package http1_test

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

	"github.com/gpuaas/gpuaas/internal/http1"
)

const host = "Host: door\r\n"

func TestAnswersOneAfterAnother(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c := b.dial()
	for i := range 3 {
		c.say(fmt.Sprintf("POST /%d HTTP/1.1\r\n%scontent-length:  5\t\r\n\r\nhello", i, host))
		if status, body, last := c.hear(); status != 200 || body != fmt.Sprintf("saw POST /%d hello", i) || last {
			t.Errorf("%d %q %v", status, body, last)
		}
	}
	c.say("GET /none HTTP/1.1\r\n" + host + "\r\n")
	if status, body, last := c.hear(); status != 204 || body != "" || last {
		t.Errorf("%d %q %v", status, body, last)
	}
	c.say("GET /end HTTP/1.1\r\n" + host + "Connection: keep-alive, Close\r\n\r\n")
	if status, _, last := c.hear(); status != 200 || !last || !c.silent() {
		t.Errorf("%d, last %v", status, last)
	}
}

// net/http's own client finds nothing odd, with bodies of either kind.
func TestTheStandardClientUnderstands(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
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

// What two readers could understand in two ways is refused, and nothing that
// follows is taken for a request.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	t.Parallel()
	const hidden = "GET /hidden HTTP/1.1\r\n" + host + "\r\n"
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"length and coding":        {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 400},
		"coding and length":        {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + hidden, 400},
		"coding":                   {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 501},
		"odd coding":               {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n" + hidden, 501},
		"two lengths":              {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nContent-Length: 0\r\n\r\nabcd" + hidden, 400},
		"same length twice":        {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd" + hidden, 400},
		"list of lengths":          {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4, 4\r\n\r\nabcd" + hidden, 400},
		"negative length":          {"POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n" + hidden, 400},
		"signed length":            {"POST / HTTP/1.1\r\n" + host + "Content-Length: +4\r\n\r\nabcd" + hidden, 400},
		"length in hex":            {"POST / HTTP/1.1\r\n" + host + "Content-Length: 0x4\r\n\r\nabcd" + hidden, 400},
		"empty length":             {"POST / HTTP/1.1\r\n" + host + "Content-Length:\r\n\r\n" + hidden, 400},
		"endless length":           {"POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n" + hidden, 400},
		"space before colon":       {"POST / HTTP/1.1\r\n" + host + "Content-Length : 4\r\n\r\nabcd" + hidden, 400},
		"folded field":             {"GET / HTTP/1.1\r\n" + host + "A: b\r\n Content-Length: 4\r\n\r\n" + hidden, 400},
		"tab before field":         {"GET / HTTP/1.1\r\n\tHost: a\r\n" + host + "\r\n" + hidden, 400},
		"no colon":                 {"GET / HTTP/1.1\r\n" + host + "nothing\r\n\r\n" + hidden, 400},
		"no name":                  {"GET / HTTP/1.1\r\n" + host + ": a\r\n\r\n" + hidden, 400},
		"name with NUL":            {"GET / HTTP/1.1\r\n" + host + "A\x00: a\r\n\r\n" + hidden, 400},
		"value with NUL":           {"GET / HTTP/1.1\r\n" + host + "A: a\x00b\r\n\r\n" + hidden, 400},
		"value with CR":            {"GET / HTTP/1.1\r\n" + host + "A: a\rB: c\r\n\r\n" + hidden, 400},
		"bare line feed":           {"GET / HTTP/1.1\r\n" + host + "A: a\n\r\n" + hidden, 400},
		"bare line feeds":          {"GET / HTTP/1.1\nHost: door\n\n" + hidden, 400},
		"no host":                  {"GET / HTTP/1.1\r\n\r\n" + hidden, 400},
		"two hosts":                {"GET / HTTP/1.1\r\n" + host + host + "\r\n" + hidden, 400},
		"blank first line":         {"\r\nGET / HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"no version":               {"GET /\r\n\r\n" + hidden, 400},
		"HTTP/0.9":                 {"GET / HTTP/0.9\r\n" + host + "\r\n" + hidden, 400},
		"HTTP/1.0":                 {"GET / HTTP/1.0\r\n" + host + "\r\n" + hidden, 505},
		"HTTP/1.2":                 {"GET / HTTP/1.2\r\n" + host + "\r\n" + hidden, 400},
		"HTTP/2":                   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		"two spaces":               {"GET  / HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"space in target":          {"GET /a b HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"absolute target":          {"GET https://elsewhere/ HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"authority":                {"CONNECT a:1 HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"asterisk":                 {"OPTIONS * HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"control in target":        {"GET /\x7f HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"target beyond ASCII":      {"GET /é HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"bad escape":               {"GET /%zz HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"method is no token":       {"G(T / HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"endless method":           {strings.Repeat("G", 100) + " / HTTP/1.1\r\n" + host + "\r\n" + hidden, 400},
		"another expectation":      {"POST / HTTP/1.1\r\n" + host + "Expect: more\r\nContent-Length: 1\r\n\r\na" + hidden, 417},
		"long line":                {"GET / HTTP/1.1\r\n" + host + "A: " + strings.Repeat("a", 5<<10) + "\r\n\r\n" + hidden, 431},
		"long target":              {"GET /" + strings.Repeat("a", 5<<10) + " HTTP/1.1\r\n" + host + "\r\n" + hidden, 431},
		"large head":               {"GET / HTTP/1.1\r\n" + host + strings.Repeat("A: "+strings.Repeat("a", 1<<10)+"\r\n", 20) + "\r\n" + hidden, 431},
		"many fields":              {"GET / HTTP/1.1\r\n" + host + strings.Repeat("A: a\r\n", 100) + "\r\n" + hidden, 431},
		"a TLS record in the open": {"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil)
			w := b.dial()
			w.say(c.text)
			if status, _, last := w.hear(); status != c.status || !last {
				t.Errorf("%d, last %v", status, last)
			}
			if !w.silent() || b.saw() != "" {
				t.Errorf("the handler saw %q", b.saw())
			}
		})
	}
}

// Who does not wait for an answer gets them in order.
func TestPipelining(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.dial()
	w.say("POST /1 HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabcGET /park HTTP/1.1\r\n" + host + "\r\nPOST /2 HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\ndef")
	if _, body, _ := w.hear(); body != "saw POST /1 abc" {
		t.Error(body)
	}
	(<-b.parked).Resume(func(w http.ResponseWriter) { _, _ = io.WriteString(w, "later") })
	for _, want := range []string{"later", "saw POST /2 def"} {
		if _, body, last := w.hear(); body != want || last {
			t.Errorf("%q, want %q", body, want)
		}
	}
}

// Bodies that nobody reads end the connection when they are large, and not when
// they are small; either way they are no request.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	for size, kept := range map[int]bool{10: true, 100 << 10: true, 1 << 20: false} {
		b := setup(t, nil)
		w := b.dial()
		body := strings.Repeat("GET /hidden HTTP/1.1\r\n"+host+"\r\n", size/30+1)[:size]
		var sent sync.WaitGroup
		sent.Go(func() {
			_, _ = fmt.Fprintf(w.Conn, "POST /unread HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", host, size, body)
		})
		if status, _, last := w.hear(); status != 200 || last == kept {
			t.Errorf("%d bytes: %d, last %v", size, status, last)
		}
		sent.Wait()
		if kept {
			w.say("GET /next HTTP/1.1\r\n" + host + "\r\n")
			if _, body, _ := w.hear(); body != "saw GET /next " {
				t.Errorf("%d bytes: %q", size, body)
			}
		}
		if strings.Contains(b.saw(), "hidden") {
			t.Errorf("%d bytes: %s", size, b.saw())
		}
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.dial()
	w.say("POST /1 HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	if line, err := w.r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatal(line, err)
	}
	_, _ = w.r.ReadString('\n')
	w.say("abc")
	if status, body, last := w.hear(); status != 200 || body != "saw POST /1 abc" || last {
		t.Error(status, body, last)
	}
	w.say("POST /unread HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	if status, _, last := w.hear(); status != 200 || !last || !w.silent() {
		t.Error("a body that was not asked for leaves the connection open")
	}
}

// Who is slow is cut off, wherever: in the handshake, in the head, between two
// requests, and when taking the answer.
func TestSlowPeersAreCutOff(t *testing.T) {
	t.Parallel()
	const short = 200 * time.Millisecond
	t.Run("handshake", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(s *http1.Server) { s.HandshakeWithin = short })
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
			b := setup(t, func(s *http1.Server) { s.IdleFor, s.HeadWithin = short, short })
			w := b.dial()
			w.say(text)
			if !w.silent() {
				t.Error("an answer to nothing")
			}
		})
	}
	t.Run("answer", func(t *testing.T) {
		t.Parallel()
		done := make(chan error, 1)
		b := setup(t, func(s *http1.Server) {
			s.WriteWithin = short
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				var err error
				for err == nil {
					_, err = w.Write(make([]byte, 1<<20))
				}
				done <- err
			})
		})
		b.dial().say("GET / HTTP/1.1\r\n" + host + "\r\n")
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

// A body that never comes ends with the deadline that the handler sets, or with
// the connection.
func TestTornBodies(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	b := setup(t, func(s *http1.Server) {
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, err := io.ReadAll(r.Body)
			read <- err
		})
	})
	w := b.dial()
	w.say("POST / HTTP/1.1\r\n" + host + "Content-Length: 100\r\n\r\nabc")
	if err := <-read; err == nil {
		t.Error("half a body passes for a whole one")
	}
	if _, _, last := w.hear(); !last {
		t.Error("the rest could come as a request")
	}
	w = b.dial()
	w.say("POST / HTTP/1.1\r\n" + host + "Content-Length: 100\r\n\r\nabc")
	w.Close()
	if err := <-read; err == nil {
		t.Error("half a body passes for a whole one")
	}
}

// A parked answer is given once, by anybody, before or after the handler returns;
// the connection serves on.
func TestParking(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.dial()
	for range 50 {
		w.say("GET /park HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\nbody")
		p := <-b.parked // Resume races with the end of the handler
		go p.Resume(func(w http.ResponseWriter) { _, _ = io.WriteString(w, "later") })
		if status, body, last := w.hear(); status != 200 || body != "later" || last {
			t.Fatal(status, body, last)
		}
	}
	w.say("GET /park HTTP/1.1\r\n" + host + "\r\n")
	p := <-b.parked
	if p.Gone() {
		t.Error("gone while it waits")
	}
	w.Close()
	for begin := time.Now(); !p.Gone(); {
		if time.Since(begin) > 5*time.Second {
			t.Fatal("nobody sees that the peer has hung up")
		}
	}
	p.Resume(func(w http.ResponseWriter) { panic("also kept from the others") })
	w = b.dial()
	w.say("GET /still HTTP/1.1\r\n" + host + "\r\n")
	if status, _, _ := w.hear(); status != 200 {
		t.Error(status)
	}
}

// The end: what is being answered is, what is idle is closed, what is parked waits
// for its answer.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	idle, parked, fresh := b.dial(), b.dial(), b.dial()
	parked.say("GET /park HTTP/1.1\r\n" + host + "\r\n")
	p := <-b.parked
	idle.say("GET / HTTP/1.1\r\n" + host + "\r\n")
	idle.hear()
	b.stop()
	if !idle.silent() || !fresh.silent() {
		t.Error("an idle connection is still open")
	}
	if c, err := net.Dial("tcp", b.addr); err == nil {
		c.Close()
		t.Error("it still listens")
	}
	p.Resume(func(w http.ResponseWriter) { _, _ = io.WriteString(w, "later") })
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
	b := setup(t, func(s *http1.Server) { s.DrainFor = 50 * time.Millisecond })
	w := b.dial()
	w.say("GET /park HTTP/1.1\r\n" + host + "\r\n")
	<-b.parked
	b.stop()
	if !w.silent() {
		t.Error("still open")
	}
	if err := <-b.ended; err == nil {
		t.Error("nobody hears that an answer was cut off")
	}
	b.ended <- nil
}

// Many who shake hands at once leave room for those who have.
func TestStormLeavesRoom(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *http1.Server) { s.HandshakeWithin, s.IdleFor = time.Minute, time.Minute })
	silent := make([]net.Conn, 50)
	for i := range silent { // who connects and says nothing keeps nobody out
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
