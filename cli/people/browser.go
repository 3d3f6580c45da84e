package people

import (
	"context"
	"crypto/subtle"
	"fmt"
	"html"
	"net"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// byBrowser waits on a local port for the browser to send the code.
func (l *loginFlow) byBrowser(ctx context.Context, s *signing, open func(string) error) (*oauth2.Token, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the browser: %w", err)
	}
	b := &browsing{state: random(), issuer: s.issuer, came: make(chan answered, 1)}
	s.nonce, s.oauth.RedirectURL = random(), "http://"+listener.Addr().String()+"/callback"
	server := &http.Server{Handler: b, ReadHeaderTimeout: headerWithin, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = server.Serve(listener) }()
	defer func() {
		// The response should reach the browser before this process ends.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(within)
	}()

	verifier := oauth2.GenerateVerifier()
	at := s.oauth.AuthCodeURL(b.state, append(l.options(s), oauth2.S256ChallengeOption(verifier), oidc.Nonce(s.nonce))...)
	l.app.Visit(at, open, "Open this address in a browser on the local machine:")
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case said := <-b.came:
		if said.err != nil {
			return nil, said.err
		}
		return s.oauth.Exchange(ctx, said.code, oauth2.VerifierOption(verifier))
	}
}

// headerWithin is the time in which the browser must send its request header.
const headerWithin = 5 * time.Second

// browsing responds to the browser that returns.
type browsing struct {
	state, issuer string
	came          chan answered
}

type answered struct {
	code string
	err  error
}

// ServeHTTP accepts the first response to our own request. Any page can send a
// browser here: without the state it changes nothing, and the wait goes on.
func (b *browsing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close")
	switch {
	case r.URL.Path != "/callback":
		http.NotFound(w, r)
		return
	case subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(b.state)) != 1, q.Get("iss") != "" && q.Get("iss") != b.issuer:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, "<!doctype html><title>gpuaas</title><p>This is not the response to a request of gpuaas login.")
		return
	}
	said, text := answered{code: q.Get("code")}, "You are signed in. You may close this page."
	if said.code == "" {
		said.err = &oauth2.RetrieveError{ErrorCode: q.Get("error"), ErrorDescription: q.Get("error_description")}
		text = "The provider rejected the sign-in: " + q.Get("error") + ". You may close this page."
	}
	_, _ = fmt.Fprintf(w, "<!doctype html><title>gpuaas</title><p>%s", html.EscapeString(text))
	select {
	case b.came <- said:
	default: // the browser repeats itself
	}
}
