// Package control is the client of the payment double: its keys, its control requests, and the payment
// of a checkout page without a browser.
package control

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
	"os"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/internal/durable"
)

// Access contains the address and the keys of a double.
type Access struct {
	URL           string `json:"url"`
	SecretKey     string `json:"secret_key"`
	WebhookSecret string `json:"webhook_secret"`
	ControlToken  string `json:"control_token"`
}

// ReadAccess reads the file of KeepAccess.
func ReadAccess(path string) (a Access, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return a, fmt.Errorf("reading the keys of the payment double: %w", err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("decoding the keys of the payment double in %s: %w", path, err)
	}
	return a, nil
}

// KeepAccess creates the keys at the first start and stores the address of every start.
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
		return a, fmt.Errorf("encoding the keys of the payment double: %w", err)
	}
	return a, durable.Write(path, append(text, '\n'), 0o600)
}

// DeniedError is the response of the double to an invalid control request.
type DeniedError struct {
	Status  int
	Message string
}

func (e *DeniedError) Error() string { return e.Message }

// Status returns the status of the double.
func (a Access) Status(ctx context.Context) (s stripe.Status, err error) {
	return s, a.call(ctx, http.MethodGet, "/control/status", stripe.ControlRequest{}, &s)
}

// Arm injects a fault into the next count operations of its kind.
func (a Access) Arm(ctx context.Context, name string, count int) error {
	return a.call(ctx, http.MethodPost, "/control/faults", stripe.ControlRequest{Name: name, Count: count}, &struct{}{})
}

// Clear removes all faults.
func (a Access) Clear(ctx context.Context) error {
	return a.call(ctx, http.MethodDelete, "/control/faults", stripe.ControlRequest{}, &struct{}{})
}

// Deliver sends all pending webhooks, or one event again.
func (a Access) Deliver(ctx context.Context, event string) (sent int, err error) {
	var result struct{ Sent int }
	err = a.call(ctx, http.MethodPost, "/control/deliver", stripe.ControlRequest{Event: event}, &result)
	return result.Sent, err
}

// Page returns the address of a page by its address, its id or its reference. It rejects an address
// elsewhere, so that no card is sent there.
func (a Access) Page(ctx context.Context, ref string) (string, error) {
	if strings.Contains(ref, "://") {
		if !strings.HasPrefix(ref, a.URL+"/c/pay/") {
			return "", &DeniedError{http.StatusNotFound, "this is no page of the development provider at " + a.URL}
		}
		return ref, nil
	}
	s, err := a.Status(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range s.Pages {
		if ref != "" && (p.ID == ref || p.Reference == ref) {
			return p.URL, nil
		}
	}
	return "", &DeniedError{http.StatusNotFound, "no page has this id or reference"}
}

// controlTimeout limits a control request: the double is on the same computer.
const controlTimeout = 10 * time.Second

// maxResponse limits a response of the double.
const maxResponse = 8 << 20

func (a Access) call(ctx context.Context, method, path string, body stripe.ControlRequest, result any) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a control request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.URL+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("calling the payment double: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+a.ControlToken)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("calling the payment double: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxResponse))
	switch {
	case err != nil:
		return fmt.Errorf("reading the response of the payment double: %w", err)
	case response.StatusCode != http.StatusOK:
		return &DeniedError{response.StatusCode, strings.TrimSpace(string(text))}
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("reading the response of the payment double: %w", err)
	}
	return nil
}
