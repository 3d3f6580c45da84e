package stripe

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/durable"
)

// Access is where a provider answers, and what opens it.
type Access struct {
	URL           string `json:"url"`
	SecretKey     string `json:"secret_key"`
	WebhookSecret string `json:"webhook_secret"`
	ControlToken  string `json:"control_token"`
}

// ReadAccess reads what KeepAccess has written.
func ReadAccess(path string) (a Access, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return a, fmt.Errorf("reading the provider's keys: %w", err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("reading the provider's keys in %s: %w", path, err)
	}
	return a, nil
}

// KeepAccess makes the keys once, and notes where the provider answers this time.
func KeepAccess(path, at string) (Access, error) {
	a, err := ReadAccess(path)
	if errors.Is(err, fs.ErrNotExist) {
		a, err = Access{SecretKey: "sk_test_" + rand.Text(), WebhookSecret: "whsec_" + rand.Text(), ControlToken: rand.Text()}, nil
	}
	if err != nil {
		return a, err
	}
	a.URL = at
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return a, fmt.Errorf("encoding the provider's keys: %w", err)
	}
	return a, durable.Write(path, append(text, '\n'), 0o600)
}

// RefusedError is what the control endpoint has against an order.
type RefusedError struct {
	Status  int
	Message string
}

func (e *RefusedError) Error() string { return e.Message }

// Status of the provider.
func (a Access) Status(ctx context.Context) (s Status, err error) {
	return s, a.order(ctx, http.MethodGet, "/control/status", nil, &s)
}

// Arm makes a fault happen to the next count of its kind.
func (a Access) Arm(ctx context.Context, name string, count int) error {
	return a.order(ctx, http.MethodPost, "/control/faults", order{Name: name, Count: count}, &struct{}{})
}

// Clear takes all faults back.
func (a Access) Clear(ctx context.Context) error {
	return a.order(ctx, http.MethodDelete, "/control/faults", nil, &struct{}{})
}

// Deliver sends what waits, or word of one event again.
func (a Access) Deliver(ctx context.Context, event string) (sent int, err error) {
	var said struct{ Sent int }
	err = a.order(ctx, http.MethodPost, "/control/deliver", order{Event: event}, &said)
	return said.Sent, err
}

// Page is the address of a page that is named by itself, its id or its reference.
// An address of another place is refused: no card is sent there.
func (a Access) Page(ctx context.Context, ref string) (string, error) {
	if strings.Contains(ref, "://") {
		if !strings.HasPrefix(ref, a.URL+"/c/pay/") {
			return "", &RefusedError{http.StatusNotFound, "this is no page of the development provider at " + a.URL}
		}
		return ref, nil
	}
	var said struct{ URL string }
	err := a.order(ctx, http.MethodGet, "/control/page?ref="+url.QueryEscape(ref), nil, &said)
	return said.URL, err
}

// orderWithin bounds one order: the provider is on this machine.
const orderWithin = 10 * time.Second

func (a Access) order(ctx context.Context, method, path string, body, said any) error {
	ctx, cancel := context.WithTimeout(ctx, orderWithin)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding an order: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.URL+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("asking the provider: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+a.ControlToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("asking the provider: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxBody))
	switch {
	case err != nil:
		return fmt.Errorf("reading the provider's answer: %w", err)
	case answer.StatusCode != http.StatusOK:
		return &RefusedError{answer.StatusCode, strings.TrimSpace(string(text))}
	}
	if err := json.Unmarshal(text, said); err != nil {
		return fmt.Errorf("reading the provider's answer: %w", err)
	}
	return nil
}
