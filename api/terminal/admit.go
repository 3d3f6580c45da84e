package terminal

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/handshake"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/terminal"
)

// serve admits a client. Everything that is wrong before the websocket is open is a problem, as of the API.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, purpose terminal.Purpose) {
	begun := s.Clock.Now()
	grant, err := s.redeem(r, purpose)
	if err != nil {
		s.Metrics.rejects.WithLabelValues(string(errs.CodeOf(err))).Inc()
		s.problems.Write(w, r, err)
		return
	}
	if grant.Resumes != uuid.Nil {
		s.resume(w, r, grant)
		return
	}
	o, err := s.Sessions.Open(r.Context(), s.instance, grant, s.client(r))
	if err != nil {
		s.problems.Write(w, r, err)
		return
	}
	one := s.add(o, r.Header.Get("Traceparent"))
	if one == nil {
		s.problems.Write(w, r, errs.New(errs.Unavailable, "the server restarts").Try("connect again"))
		_ = s.Sessions.End(r.Context(), o.Session, terminal.Ended{Reason: terminal.Restarted})
		return
	}
	c, err := s.accept(w, r, purpose)
	if err != nil { // the library has responded
		one.end(terminal.Closed)
		one.finish() //nolint:contextcheck // a write has its own deadline
		return
	}
	one.begun = begun
	one.run(r.Context(), c)
}

func (s *Server) client(r *http.Request) audit.Client {
	if s.Client != nil {
		return s.Client(r)
	}
	return request.Client(r)
}

func protocolOf(p terminal.Purpose) string {
	if p == terminal.SSH {
		return SSHProtocol
	}
	return ShellProtocol
}

// accept opens the websocket. The origin was checked by a stricter rule than that of the library. The server selects the first
// subprotocol only, so it never sends the token back, and no compression.
func (s *Server) accept(w http.ResponseWriter, r *http.Request, p terminal.Purpose) (*client, error) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{protocolOf(p)}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	return newClient(s.base, conn, valueOr(s.Times.Patience, patience)), nil
}

// redeem finds the token, checks the handshake and consumes the token, whether it is accepted or not.
func (s *Server) redeem(r *http.Request, purpose terminal.Purpose) (terminal.Grant, error) {
	if err := s.misplaced(r); err != nil {
		return terminal.Grant{}, err
	}
	token, err := tokenOf(r.Header)
	if err != nil {
		offered, _ := handshake.TokensOf(r.Header)
		return terminal.Grant{}, s.consume(r.Context(), strings.Join(append(offered, r.Header.Values("Authorization")...), "\n"), err)
	}
	if !strings.HasPrefix(token, terminal.Prefix) || len(token) != identity.TokenLength {
		return terminal.Grant{}, errs.New(errs.TerminalTokenInvalid, "this is no terminal token").Try("create one: createTerminalToken")
	}
	of, wrong := ids.Parse[ids.Allocation](r.PathValue("allocation"))
	if wrong != nil {
		wrong = errs.New(errs.NotFound, "there is no such websocket")
	}
	if err := cmp.Or(handshake.Check(r, protocolOf(purpose), ""), wrong, s.checkOrigin(r.Header)); err != nil {
		return terminal.Grant{}, s.consume(r.Context(), token, err)
	}
	return s.Sessions.Redeem(r.Context(), terminal.Use{Token: token, Purpose: purpose, Allocation: of, Origin: r.Header.Get("Origin")})
}

func tokenOf(h http.Header) (string, error) {
	token, err := handshake.TokenOf(h)
	if err != nil {
		return "", err
	}
	sent := h.Values("Authorization")
	switch {
	case len(sent) > 1, len(sent) == 1 && token != "":
		return "", errs.New(errs.BadRequest, "there is more than one token").At("Authorization").Try("send one of them")
	case len(sent) == 1:
		scheme, value, _ := strings.Cut(sent[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", errs.New(errs.TokenInvalid, "the Authorization header is of another scheme than Bearer").At("Authorization")
		}
		return strings.TrimSpace(value), nil
	case token == "":
		return "", errs.New(errs.TokenMissing, "no terminal token was sent").At("Sec-WebSocket-Protocol").Try("create one: createTerminalToken")
	}
	return token, nil
}

// checkOrigin rejects pages of other sites. Clients that are no browsers send no origin.
func (s *Server) checkOrigin(h http.Header) error {
	sent := h.Values("Origin")
	if len(sent) == 0 {
		return nil
	}
	u, err := url.Parse(s.PublicURL())
	if err == nil && len(sent) == 1 && sent[0] == u.Scheme+"://"+u.Host {
		return nil
	}
	return errs.New(errs.OriginNotAllowed, "the page has another origin than this installation").At("Origin")
}

// token matches a terminal token anywhere in a text.
var token = regexp.MustCompile(regexp.QuoteMeta(terminal.Prefix) + `[A-Za-z0-9_-]{43}`)

// misplaced consumes tokens in the URL, in cookies and in the referrer: they end up in logs and in the history of browsers.
func (s *Server) misplaced(r *http.Request) error {
	text := strings.Join(append([]string{r.URL.Path, r.URL.RawQuery, r.Header.Get("Referer")}, r.Header.Values("Cookie")...), "\n")
	if query, err := url.QueryUnescape(r.URL.RawQuery); err == nil {
		text += "\n" + query
	}
	if token.MatchString(text) {
		return s.consume(r.Context(), text, errs.New(errs.TokenInURL, "a terminal token was sent in the URL, a cookie or the referrer, and is not valid any more").
			Try("offer it as a subprotocol, or send it in the Authorization header"))
	}
	if r.URL.RawQuery != "" {
		return errs.New(errs.UnknownParameter, "the websocket has no parameters")
	}
	return nil
}

// consume consumes the tokens in a text, and returns why.
func (s *Server) consume(ctx context.Context, text string, why error) error {
	for _, one := range token.FindAllString(text, maxConsumed) {
		if err := s.Sessions.Consume(ctx, one); err != nil {
			return err
		}
	}
	return why
}

// maxConsumed limits the statements of one request.
const maxConsumed = 4

// resume connects a client to an open terminal of this server.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, g terminal.Grant) {
	s.mu.Lock()
	one := s.open[g.Resumes]
	s.mu.Unlock()
	c, err := s.accept(w, r, terminal.Shell)
	if err != nil {
		return // the library has responded
	}
	if one == nil || one.row.Principal != g.Principal || one.row.Allocation != g.Allocation || one.row.Purpose != terminal.Shell {
		c.close(closeGone, string(terminal.Lost))
		return
	}
	one.serveClient(r.Context(), c, true)
}
