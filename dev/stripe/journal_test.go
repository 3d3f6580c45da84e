package stripe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

func reopen(t *testing.T, path string, now func() time.Time) (*Server, error) {
	t.Helper()
	s, err := New(Config{URL: "http://127.0.0.1:1", SecretKey: "sk_test_1", WebhookSecret: "w", Path: path, Clock: clock.At(now)})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// A crash cuts the last line off. What it said was told to nobody; all else stays.
func TestACutLineIsForgotten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payments.jsonl")
	s, err := reopen(t, path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"webhook_drop", "webhook_delay"} {
		if err := s.Arm(name, 1); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	last := len(lines[len(lines)-1]) + 1
	for cut := 1; cut <= last; cut++ {
		at := filepath.Join(t.TempDir(), "cut.jsonl")
		if err := os.WriteFile(at, whole[:len(whole)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		back, err := reopen(t, at, time.Now)
		if err != nil {
			t.Fatalf("cut by %d: %v", cut, err)
		}
		if st, err := back.Status(); err != nil || len(st.Faults) != 1 || st.Faults[0].Name != "webhook_drop" {
			t.Fatalf("cut by %d: %+v, %v", cut, st.Faults, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A line in the midst that is none is not a crash's doing: nothing is made of it.
func TestADamagedFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payments.jsonl")
	if err := os.WriteFile(path, []byte("{}\n{\"charges\":[\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := reopen(t, path, time.Now); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "{}\n{\"charges\"") {
		t.Errorf("it was written over: %s, %v", text, err)
	}
}

// What is past its time goes at the next start; what is still to be sent stays.
func TestOldThingsAreForgotten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payments.jsonl")
	born := time.Now()
	s, err := reopen(t, path, func() time.Time { return born })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.change(func(now time.Time) error {
		s.emit("customer.created", object{"id": "cus_1"}, nil, now)
		s.emit("checkout.session.expired", object{"id": "cs_1"}, nil, now)
		s.state.answers.put(&answer{Key: "k", At: now, Status: 200, Body: []byte("{}")})
		s.state.portals.put(&portal{ID: "bps_1", Secret: "x", Created: now.Unix()})
		s.state.customers.put(&customer{ID: "cus_1", Created: now.Unix()})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	back, err := reopen(t, path, func() time.Time { return born.Add(31 * 24 * time.Hour) })
	if err != nil {
		t.Fatal(err)
	}
	st := &back.state
	if len(st.events.rows) != 1 || st.events.rows[0].Type != "checkout.session.expired" || len(st.deliveries.rows) != 1 ||
		len(st.answers.rows) != 0 || len(st.portals.rows) != 0 || len(st.customers.rows) != 1 {
		t.Errorf("%+v", st)
	}
}

// A key that was forgotten does its work anew.
func TestKeysAreForgottenAfterADay(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s, err := reopen(t, "", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	s.state.answers.put(&answer{Key: "k", At: now})
	for after, want := range map[time.Duration]bool{0: true, 24*time.Hour - 1: true, 24 * time.Hour: false} {
		if _, known := s.answered("k", now.Add(after)); known != want {
			t.Errorf("after %s: %t", after, known)
		}
	}
}

// What could not be written down is written with the next change.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payments.jsonl")
	s, err := reopen(t, path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	right := s.journal.file
	if s.journal.file, err = os.Open(path); err != nil { // for reading alone
		t.Fatal(err)
	}
	if err := s.Arm("webhook_drop", 1); err == nil {
		t.Error("a change that is not written down was said to be done")
	}
	if err := s.journal.file.Close(); err != nil {
		t.Fatal(err)
	}
	s.journal.file = right
	if err := s.Arm("webhook_delay", 1); err != nil {
		t.Fatal(err)
	}
	back, err := reopen(t, path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := back.Status(); err != nil || len(st.Faults) != 2 {
		t.Errorf("%+v, %v", st.Faults, err)
	}
}

func TestPausesGrow(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 7: time.Minute, 1000: time.Minute} {
		if got := pause(attempts); got != want {
			t.Errorf("after %d attempts %s, want %s", attempts, got, want)
		}
	}
}
