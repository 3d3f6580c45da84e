package logs

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/protocol"
)

// Remote calls a terminal server of another process.
type Remote struct {
	// Running returns how the running terminal servers are reached.
	Running func(context.Context) ([]terminal.Instance, error)
	Clock   clock.Clock
}

const (
	connectWithin = 3 * time.Second
	// respondWithin includes the time in which the agent opens its connection.
	respondWithin = protocol.RelayWithin + 5*time.Second
	maxProblem    = 4 << 10
)

var errNotReached = errors.New("the terminal server is not reached")

// Check returns an error if no terminal server is running.
func (r *Remote) Check(ctx context.Context) error {
	servers, err := r.Running(ctx)
	if err == nil && len(servers) == 0 {
		err = errs.New(errs.Unavailable, "no terminal server is running").Try("start a server with the role terminal")
	}
	return err
}

// Open calls one of the running servers. A server that is not reached has not used the token.
func (r *Remote) Open(ctx context.Context, token string) (io.ReadCloser, error) {
	servers, err := r.Running(ctx)
	if err != nil {
		return nil, err
	}
	for _, server := range servers {
		body, err := r.call(ctx, server, token)
		if !errors.Is(err, errNotReached) {
			return body, err
		}
	}
	return nil, errs.New(errs.Unavailable, "no terminal server is reached").Try("try again in a few seconds")
}

func (r *Remote) call(ctx context.Context, server terminal.Instance, token string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+server.Address+"/internal/v1/logs", nil)
	if err != nil {
		return nil, fmt.Errorf("calling a terminal server: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	dial := &tls.Dialer{NetDialer: &net.Dialer{Timeout: connectWithin}, Config: pki.KeyTLS(server.Key, r.Clock)}
	transport := &http.Transport{
		ResponseHeaderTimeout: respondWithin, DisableKeepAlives: true,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial.DialContext(ctx, network, address)
			if err != nil {
				return nil, errors.Join(errNotReached, err)
			}
			return conn, nil
		},
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, errs.New(errs.Unavailable, "the terminal server has not responded").Try("try again in a few seconds").Because(fmt.Errorf("calling a terminal server: %w", err))
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	var p problem
	if err := json.NewDecoder(io.LimitReader(response.Body, maxProblem)).Decode(&p); err != nil || p.Code == "" {
		return nil, errs.New(errs.Unavailable, "the terminal server responds with status %d", response.StatusCode)
	}
	if p.Code == errs.TerminalTokenInvalid { // the token lives for seconds, and is not that of the caller
		p.Code = errs.Unavailable
	}
	return nil, errs.New(p.Code, "%s", p.Message)
}
