package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/gitops/source/text"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// overHTTPS uses Git's smart HTTP protocol. Proxies of the environment are not used: the address
// check would see the proxy's address.
func (r Remote) overHTTPS(_ context.Context, u *url.URL) (Line, error) {
	pool, err := r.roots()
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		DialContext: dialer(r.AllowPrivate).DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
		TLSHandshakeTimeout: connecting, ResponseHeaderTimeout: 2 * time.Minute, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	h := &httpsLine{base: u, token: r.Auth.Token, client: &http.Client{Transport: t}}
	h.client.CheckRedirect = h.redirect
	return h, nil
}

func (r Remote) roots() (*x509.CertPool, error) {
	if len(r.Auth.CA) == 0 {
		return nil, nil //nolint:nilnil // the system's
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(r.Auth.CA) {
		return nil, errs.Invalid("auth", "the certificates of the Git server cannot be read")
	}
	return pool, nil
}

type httpsLine struct {
	base   *url.URL
	token  []byte
	client *http.Client

	mu     sync.Mutex // Close may run while a request does, when the context ends
	closed bool
	open   []io.Closer
}

// redirect rejects a redirect to another server, port or scheme, and every redirect of a POST. The
// token would be sent to an address that the source does not name.
func (h *httpsLine) redirect(to *http.Request, via []*http.Request) error {
	if to.URL.Scheme != "https" || to.URL.Host != h.base.Host || to.URL.User != nil {
		return errs.New(errs.Unavailable, "the Git server redirects to %s", text.Printable(to.URL.Host)).
			Try("name that address, if you trust it")
	}
	if len(via) > 3 || via[0].Method != http.MethodGet || !strings.HasSuffix(to.URL.Path, "/info/refs") {
		return errors.New("the Git server redirects in a circle")
	}
	return nil
}

func (h *httpsLine) Refs(ctx context.Context) (io.Reader, error) {
	at := h.base.JoinPath("info/refs")
	at.RawQuery = "service=git-upload-pack"
	res, err := h.do(ctx, http.MethodGet, at, nil, "application/x-git-upload-pack-advertisement") //nolint:bodyclose // with the line
	if err != nil {
		return nil, err
	}
	// After a redirect on the same server, the POST goes to the new address.
	moved := *res.Request.URL
	moved.RawQuery, moved.Path, moved.RawPath = "", strings.TrimSuffix(moved.Path, "/info/refs"), ""
	h.base = &moved
	return res.Body, nil
}

func (h *httpsLine) request(ctx context.Context, request []byte) (io.Reader, error) {
	res, err := h.do(ctx, http.MethodPost, h.base.JoinPath("git-upload-pack"), request, "application/x-git-upload-pack-result") //nolint:bodyclose // with the line
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// do leaves the body open until the line is closed.
func (h *httpsLine) do(ctx context.Context, method string, at *url.URL, body []byte, kind string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("asking the repository: %w", err)
	}
	req.Header.Set("User-Agent", "git/gpuaas")
	req.Header.Set("Accept", kind)
	if body != nil {
		req.Header.Set("Content-Type", "application/x-git-upload-pack-request")
	}
	if len(h.token) > 0 {
		req.SetBasicAuth("x-access-token", string(h.token))
	}
	res, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	if !h.opened(res.Body) {
		return nil, errors.Join(net.ErrClosed, ctx.Err())
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden, res.StatusCode == http.StatusNotFound:
		// A forge hides with 404 what a token may not see.
		return nil, errs.New(errs.NotFound, "the Git server has no repository at this address, or hides it (%d)", res.StatusCode).Try("check the address, and the permissions of the token")
	case res.StatusCode != http.StatusOK:
		return nil, errs.New(errs.Unavailable, "the Git server answers %d", res.StatusCode)
	case res.Header.Get("Content-Type") != kind:
		return nil, errs.New(errs.Unavailable, "the Git server does not speak Git's smart protocol")
	}
	return res, nil
}

// opened leaves a body to Close. It closes the body itself if Close has run before.
func (h *httpsLine) opened(body io.Closer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		_ = body.Close()
		return false
	}
	h.open = append(h.open, body)
	return true
}

func (h *httpsLine) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, c := range h.open {
		_ = c.Close()
	}
	h.client.CloseIdleConnections()
	return nil
}

// pipeLine is a line to a program, here or over ssh.
type pipeLine struct {
	in    io.WriteCloser
	out   io.Reader
	close func() error
}

func (p *pipeLine) Refs(context.Context) (io.Reader, error) { return p.out, nil }

func (p *pipeLine) request(_ context.Context, request []byte) (io.Reader, error) {
	if _, err := p.in.Write(request); err != nil {
		return nil, fmt.Errorf("asking the repository: %w", err)
	}
	return p.out, nil
}

func (p *pipeLine) Close() error {
	_ = p.in.Close()
	return p.close()
}

// local runs Git's own program on a repository of the local machine. Git itself rejects
// repositories of other users. Hooks and lazy fetches of missing objects are off.
func (r Remote) local(ctx context.Context, u *url.URL) (Line, error) {
	if !r.AllowFile && !r.AllowPrivate {
		return nil, errs.Invalid("repository", "%q is a folder of the server", u.Path).Try("name a repository by https or ssh")
	}
	if _, err := os.Stat(u.Path); err != nil { //nolint:gosec // where the operator says
		return nil, errs.New(errs.NotFound, "no repository at %s", u.Path).Because(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, "git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never", "-c", "core.fsmonitor=false", "-c", "uploadpack.allowReachableSHA1InWant=true", "upload-pack", "--timeout=120", u.Path) //nolint:gosec // an absolute path
	cmd.Env = append(without(os.Environ(), "GIT_"), "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=none")
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("serving %s: %w", u.Path, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("serving %s: %w", u.Path, err)
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("serving %s: %w", u.Path, err)
	}
	// Once: when the context ends, it closes the line while the fetch that fails of
	// that closes it as well. Of two that wait for one command the second one waits
	// for ever.
	end := sync.OnceFunc(func() {
		cancel()
		_ = cmd.Wait() // the context has ended it
	})
	return &pipeLine{in, out, func() error { end(); return nil }}, nil
}

func without(env []string, prefix string) []string {
	return slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, prefix) })
}
