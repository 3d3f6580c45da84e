package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// call sends one command and decodes its value into into.
func (b *browser) call(ctx context.Context, method, path string, body, into any) error {
	if body == nil {
		body = struct{}{}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a command: %w", err)
	}
	if method == http.MethodGet {
		text = nil
	}
	request, err := http.NewRequestWithContext(ctx, method, b.session+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("making a command: %w", err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("calling the browser: %w", err)
	}
	defer func() { _ = reply.Body.Close() }()
	var response struct{ Value json.RawMessage }
	if err := json.NewDecoder(reply.Body).Decode(&response); err != nil {
		return fmt.Errorf("reading the response of the browser: %w", err)
	}
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %.300s", method, path, response.Value)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(response.Value, into) //nolint:wrapcheck // the caller names the command
}

func (b *browser) open(ctx context.Context, path string) error {
	return b.call(ctx, http.MethodPost, "/url", map[string]any{"url": b.server.URL + path}, nil)
}

// script runs a script. An asynchronous one calls done.
func (b *browser) script(ctx context.Context, text string, into any) error {
	return b.call(ctx, http.MethodPost, "/execute/sync", map[string]any{"script": text, "args": []any{}}, into)
}

func (b *browser) async(ctx context.Context, text string, into any) error {
	return b.call(ctx, http.MethodPost, "/execute/async", map[string]any{"script": "const done = arguments[0];" + text, "args": []any{}}, into)
}

// devtools sends a command of the protocol of the developer tools.
func (b *browser) devtools(ctx context.Context, command string, parameters map[string]any, into any) error {
	return b.call(ctx, http.MethodPost, "/goog/cdp/execute", map[string]any{"cmd": command, "params": parameters}, into)
}

// before runs a script in each document before its own scripts.
func (b *browser) before(ctx context.Context, script string) error {
	return b.devtools(ctx, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script}, nil)
}

// waits waits until an expression is true on the page.
func (b *browser) waits(ctx context.Context, expression string) error {
	var last error
	err := b.until(ctx, func() bool {
		var is bool
		last = b.script(ctx, "return "+expression, &is)
		return is
	})
	if err != nil {
		var text string
		_ = b.script(ctx, "return document.body.innerText", &text)
		return fmt.Errorf("%s is not true (%w): %.300s", expression, last, text)
	}
	return nil
}

func (b *browser) until(ctx context.Context, ok func() bool) error {
	for began := (clock.Clock{}).Now(); (clock.Clock{}).Now().Sub(began) < lab.Patience; lab.Wait(ctx, 20*time.Millisecond) {
		if ok() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("not within %s", lab.Patience)
}
