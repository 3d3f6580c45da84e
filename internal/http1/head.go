package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

const (
	maxLine    = 4 << 10 // one line of a head, and the buffer of a request
	maxHead    = 16 << 10
	maxFields  = 64
	maxMethod  = 16
	maxLengths = 18 // digits
)

// headError is an answer to something that is no request.
type headError struct {
	status int
	why    string
}

func (e *headError) Error() string { return e.why }

func bad(why string) error { return &headError{http.StatusBadRequest, why} }

var errHeadSize = &headError{http.StatusRequestHeaderFieldsTooLarge, "the head of the request is too large"}

// lines reads the lines of one head.
type lines struct {
	r    *bufio.Reader
	left int
}

// next is the next line without its end. It is valid until the next read.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if l.left -= len(line); l.left < 0 || errors.Is(err, bufio.ErrBufferFull) {
		return nil, errHeadSize
	}
	if err != nil {
		return nil, err
	}
	line, ended := bytes.CutSuffix(line, []byte("\r\n"))
	if !ended {
		return nil, bad("a line of the head does not end with CR LF")
	}
	return line, nil
}

// readHead reads a head and refuses what two readers could understand in two
// ways. An error that is no headError needs no answer.
func readHead(r *bufio.Reader) (*http.Request, error) {
	l := &lines{r, maxHead}
	line, err := l.next()
	if err != nil {
		return nil, err
	}
	request, err := requestLine(line)
	if err != nil {
		return nil, err
	}
	if request.Header, err = fields(l); err != nil {
		return nil, err
	}
	return request, meaning(request)
}

func requestLine(line []byte) (*http.Request, error) {
	method, rest, ok1 := strings.Cut(string(line), " ")
	target, version, ok2 := strings.Cut(rest, " ")
	switch {
	case !ok1 || !ok2 || !isToken(method) || len(method) > maxMethod:
		return nil, bad("no request line")
	case version == "HTTP/1.0" || strings.HasPrefix(version, "HTTP/2"):
		return nil, &headError{http.StatusHTTPVersionNotSupported, "HTTP/1.1 is spoken here"}
	case version != "HTTP/1.1":
		return nil, bad("no request line")
	case !strings.HasPrefix(target, "/") || !isVisible(target):
		return nil, bad("the target is no path")
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, bad("the target is no path")
	}
	return &http.Request{
		Method: method, URL: u, RequestURI: target, Proto: version, ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}, nil
}

func fields(l *lines) (http.Header, error) {
	h := make(http.Header, 8)
	for n := 0; ; n++ {
		line, err := l.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if len(line) == 0 {
			return h, nil
		}
		// A name that ends in a space, and a line that begins with one, are what
		// readers understand differently.
		name, value, ok := bytes.Cut(line, []byte(":"))
		switch {
		case n == maxFields:
			return nil, errHeadSize
		case !ok || !isToken(string(name)):
			return nil, bad("a field has no name")
		}
		value = bytes.Trim(value, " \t")
		if !isValue(value) {
			return nil, bad("a field holds a control character")
		}
		key := textproto.CanonicalMIMEHeaderKey(string(name))
		h[key] = append(h[key], string(value))
	}
}

// meaning reads the fields that say where the request ends and to whom it goes.
func meaning(r *http.Request) error {
	h := r.Header
	if len(h["Host"]) != 1 {
		return bad("one Host is needed")
	}
	r.Host = h.Get("Host")
	h.Del("Host")
	switch expect := h["Expect"]; {
	case h["Transfer-Encoding"] != nil && h["Content-Length"] != nil:
		return bad("a length and a transfer coding contradict each other")
	case h["Transfer-Encoding"] != nil:
		return &headError{http.StatusNotImplemented, "a body needs a Content-Length; transfer codings are not understood"}
	case len(expect) > 1 || len(expect) == 1 && !strings.EqualFold(expect[0], "100-continue"):
		return &headError{http.StatusExpectationFailed, "that is not expected here"}
	}
	for _, v := range h["Connection"] {
		for option := range strings.SplitSeq(v, ",") {
			r.Close = r.Close || strings.EqualFold(strings.TrimSpace(option), "close")
		}
	}
	return length(r)
}

func length(r *http.Request) error {
	said := r.Header["Content-Length"]
	if len(said) == 0 {
		return nil
	}
	if len(said) > 1 || said[0] == "" || len(said[0]) > maxLengths || strings.Trim(said[0], "0123456789") != "" {
		return bad("the length is no number")
	}
	n, err := strconv.ParseInt(said[0], 10, 64)
	if err != nil {
		return bad("the length is no number")
	}
	r.ContentLength = n
	return nil
}

// isToken says whether s is a token of RFC 9110.
func isToken(s string) bool {
	for i := range len(s) {
		b := s[i]
		letter := b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return s != ""
}

func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func isValue(s []byte) bool {
	for _, b := range s {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}
