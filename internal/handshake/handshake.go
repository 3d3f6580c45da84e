// Package handshake checks the requests that open websockets, before anything is spent on them.
package handshake

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// bearer begins the subprotocol with the token of a client that cannot send headers.
const bearer = "gpuaas.bearer."

// maxProtocols limits the offered subprotocols. A client offers one, and its token.
const maxProtocols = 8

// Check returns an error if the request cannot become a websocket of a subprotocol. instead names what a client does that
// needs no websocket.
func Check(r *http.Request, subprotocol, instead string) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-Websocket-Key"))
	switch {
	case r.ProtoMajor != 1 || !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		return errs.New(errs.BadRequest, "the request is no handshake of a websocket").At("Upgrade").Try("use a websocket client%s", instead)
	case r.Header.Get("Sec-Websocket-Version") != "13":
		return errs.New(errs.BadRequest, "the version of the websocket protocol is not 13").At("Sec-WebSocket-Version").Try("use version 13")
	case err != nil || len(key) != 16 || len(r.Header["Sec-Websocket-Key"]) != 1:
		return errs.New(errs.BadRequest, "the key of the websocket is not 16 bytes in base64").At("Sec-WebSocket-Key").Try("use a websocket client")
	case len(tokens(r.Header, protocols)) > maxProtocols:
		return errs.New(errs.BadRequest, "the client offers more than %d subprotocols", maxProtocols).At("Sec-WebSocket-Protocol").Try("offer %s", subprotocol)
	case !hasToken(r.Header, protocols, subprotocol):
		return errs.New(errs.BadRequest, "the client offers no subprotocol that the server has").At("Sec-WebSocket-Protocol").Try("offer %s", subprotocol)
	}
	return nil
}

const protocols = "Sec-Websocket-Protocol"

// TokenOf returns the token that a client offers as a subprotocol.
func TokenOf(h http.Header) (string, error) {
	all, ok := TokensOf(h)
	switch {
	case !ok || len(all) > 1:
		return "", errs.New(errs.BadRequest, "the token is not base64url, or is offered twice").At("Sec-WebSocket-Protocol").
			Try("offer " + bearer + " and the token in base64url without padding")
	case len(all) == 0:
		return "", nil
	}
	return all[0], nil
}

// TokensOf returns all tokens that are offered as subprotocols, and whether each of them is base64url.
func TokensOf(h http.Header) (all []string, ok bool) {
	ok = true
	for _, offered := range tokens(h, protocols) {
		text, is := strings.CutPrefix(offered, bearer)
		if !is {
			continue
		}
		token, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(token) == 0 {
			ok = false
			continue
		}
		all = append(all, string(token))
	}
	return all, ok
}

func tokens(h http.Header, name string) (all []string) {
	for _, line := range h[name] {
		for part := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(part))
		}
	}
	return all
}

func hasToken(h http.Header, name, want string) bool {
	for _, t := range tokens(h, name) {
		if strings.EqualFold(t, want) {
			return true
		}
	}
	return false
}
