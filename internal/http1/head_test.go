package http1

import (
	"bufio"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// FuzzHead: what is accepted here, net/http accepts as well, and understands in
// the same way; it is the other reader.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: door\r\n\r\n",
		"POST /a?b=c%20d HTTP/1.1\r\nHost: door\r\nContent-Length: 4\r\nConnection: close\r\nA: b\r\na: c\r\n\r\nbody",
		"PUT /%41 HTTP/1.1\r\nHost: [::1]:1\r\nExpect: 100-continue\r\n\r\n",
		"GET //a/../b HTTP/1.1\r\nHost:\r\nContent-Length: 00\r\n\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ours, err := readHead(bufio.NewReaderSize(strings.NewReader(text), maxLine))
		if err != nil {
			return
		}
		theirs, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			t.Fatalf("%q is accepted here, and not by net/http: %v", text, err)
		}
		// Pragma becomes Cache-Control there.
		for _, h := range []http.Header{ours.Header, theirs.Header} {
			h.Del("Cache-Control")
			h.Del("Connection")
		}
		if ours.Method != theirs.Method || ours.RequestURI != theirs.RequestURI || ours.Host != theirs.Host || ours.ContentLength != theirs.ContentLength ||
			ours.Close != theirs.Close || !reflect.DeepEqual(ours.URL, theirs.URL) || !reflect.DeepEqual(ours.Header, theirs.Header) {
			t.Errorf("%q is\n%+v here and\n%+v by net/http", text, ours, theirs)
		}
	})
}
