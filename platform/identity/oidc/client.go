package oidc

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// A key set of a big realm is 20 KB.
	maxAnswer    = 512 << 10
	maxRedirects = 3
)

var (
	errTooLong   = errors.New("the response of the provider is too long")
	errElsewhere = errors.New("the provider redirects elsewhere")
)

// newClient returns the client for providers. It limits the size and duration of responses, and follows
// no redirect to another server, which might be an internal one.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			MaxIdleConns: 4, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: fetchWithin, ResponseHeaderTimeout: fetchWithin,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &http.Client{Transport: bounded{transport}, Timeout: 2 * fetchWithin, CheckRedirect: stay}
}

func stay(next *http.Request, via []*http.Request) error {
	if first := via[0].URL; len(via) > maxRedirects || next.URL.Host != first.Host || next.URL.Scheme != first.Scheme {
		return errElsewhere
	}
	return nil
}

type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &body{ReadCloser: answer.Body, left: maxAnswer}
	}
	return answer, err
}

type body struct {
	io.ReadCloser

	left int
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
