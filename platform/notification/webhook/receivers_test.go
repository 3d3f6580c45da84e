package webhook_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

// The receivers of the guide, with their interpreters.
var receivers = map[string][]string{
	"go": {"go", "run", "receiver.go"}, "python": {"python3", "receiver.py"}, "node": {"node", "receiver.mjs"},
}

// Each receiver of the guide accepts a message, prints it once, and rejects one that was changed.
func TestReceiversOfTheGuide(t *testing.T) {
	t.Parallel()
	for name, command := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skipf("%s is not installed", command[0])
			}
			b := setup(t)
			b.work.Sender.SetTimeout(10 * time.Second)
			port := freePort(t)
			url := fmt.Sprintf("http://127.0.0.1:%s/", port)
			e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: url})
			printed := start(t, command, "PORT="+port, "WEBHOOK_SECRET="+e.Secret)
			await(t, url)

			sent := draft(b.tenant, b.project, "provisioning.active")
			b.dispatch(sent)
			b.deliver(e.ID)
			first := b.list(e)[0]
			if first.Status != "delivered" {
				t.Fatalf("%+v", first)
			}
			if _, err := b.api.Resend(b.as(b.tenant), change[webhook.Delivery](b.caller(b.tenant)), webhook.Scope{Tenant: b.tenant}, e.ID, first.ID); err != nil {
				t.Fatal(err)
			}
			b.deliver(e.ID)
			if got := post(t, url, map[string]string{"webhook-id": "x", "webhook-timestamp": fmt.Sprint(time.Now().Unix()), "webhook-signature": "v1,AAAA"}); got != http.StatusUnauthorized {
				t.Errorf("a wrong signature: %d", got)
			}
			signature, _ := webhook.SignWith(e.Secret, "old", time.Now().Add(-time.Hour), []byte("{}"))
			if got := post(t, url, map[string]string{"webhook-id": "old", "webhook-timestamp": fmt.Sprint(time.Now().Add(-time.Hour).Unix()), "webhook-signature": signature}); got != http.StatusUnauthorized {
				t.Errorf("an old message: %d", got)
			}
			next := draft(b.tenant, b.project, "provisioning.failed")
			b.dispatch(next)
			b.deliver(e.ID)
			for _, want := range []event.Event{sent, next} { // the repetition in between was not printed
				var got event.Event
				if line := <-printed; json.Unmarshal([]byte(line), &got) != nil || got.ID != want.ID {
					t.Errorf("printed %s, want %s", line, want.ID)
				}
			}
		})
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// start starts a receiver, and returns the lines that it prints.
func start(t *testing.T, command []string, env ...string) <-chan string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = "../../../docs/guides/receivers", append(os.Environ(), env...), os.Stderr
	endGroup(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended it
	return lines
}

// await waits until the receiver listens.
func await(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the receiver does not listen: %v", err)
		}
	}
}

func post(t *testing.T, url string, header map[string]string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}
