package envelope_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
)

var at = envelope.Place{Table: "sessions", Column: "grant_enc", Row: "1"}

func newRing(t *testing.T, active string, ids ...string) *envelope.Ring {
	t.Helper()
	keys := map[string][]byte{}
	for _, id := range ids {
		keys[id] = bytes.Repeat([]byte(id[len(id)-1:]), 32)
	}
	r, err := envelope.NewRing(keys, active)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A user who can write the database, but has no key, turns bits of an envelope, moves it to another place,
// names another version or another key. None opens, each with its reason.
func TestChangedEnvelopesDoNotOpen(t *testing.T) {
	t.Parallel()
	r := newRing(t, "k2", "k1", "k2")
	sealed := r.Seal([]byte("secret"), at)
	if text, err := r.Open(sealed, at); err != nil || string(text) != "secret" {
		t.Fatalf("%q, %v", text, err)
	}
	rejected := func(what string, sealed []byte, at envelope.Place, want ...envelope.Reason) {
		t.Helper()
		text, err := r.Open(sealed, at)
		reason := envelope.ReasonOf(err)
		for _, w := range want {
			if reason == w && errs.CodeOf(err) == errs.DecryptionFailed && text == nil {
				return
			}
		}
		t.Errorf("%s: %q, %v (%s), want %v", what, text, err, reason, want)
	}
	for i := range len(sealed) * 8 {
		bent := bytes.Clone(sealed)
		bent[i/8] ^= 1 << (i % 8)
		switch i / 8 {
		case 0:
			rejected("another version", bent, at, envelope.ReasonVersion)
		case 1: // the length of the key id
			rejected("another length", bent, at, envelope.ReasonVersion, envelope.ReasonKey)
		case 2, 3: // the key id: k1 exists, and its bytes are authenticated
			rejected("another key", bent, at, envelope.ReasonKey, envelope.ReasonContent)
		default:
			rejected("a bit turned", bent, at, envelope.ReasonContent)
		}
	}
	for what, other := range map[string]envelope.Place{
		"another table":  {Table: "users", Column: at.Column, Row: at.Row},
		"another column": {Table: at.Table, Column: "secret", Row: at.Row},
		"another row":    {Table: at.Table, Column: at.Column, Row: "2"},
		"shifted":        {Table: "session", Column: "s" + at.Column, Row: at.Row},
		"joined":         {Table: at.Table + at.Column, Column: "", Row: at.Row},
	} {
		rejected(what, sealed, other, envelope.ReasonContent)
	}
	for n := range sealed {
		rejected("cut off", sealed[:n], at, envelope.ReasonVersion, envelope.ReasonContent)
	}
	rejected("extended", append(bytes.Clone(sealed), 0), at, envelope.ReasonContent)
	rejected("an unknown key", newRing(t, "k3", "k3").Seal([]byte("secret"), at), at, envelope.ReasonKey)
	if _, err := newRing(t, "k3", "k3").Open(sealed, at); !strings.Contains(err.Error(), `"k2"`) {
		t.Errorf("the error names no key: %v", err)
	}
}

// After a rotation the newest key seals, and the envelopes of both open. After its end only those of the
// newest do.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	r := newRing(t, "k1", "k1")
	first := r.Seal([]byte("a"), at)
	old := newRing(t, "k2", "k1", "k2")
	second := old.Seal([]byte("b"), at)
	if !bytes.HasPrefix(first, envelope.Header("k1")) || !bytes.HasPrefix(second, envelope.Header("k2")) {
		t.Error("an envelope does not begin with its key")
	}
	for _, sealed := range [][]byte{first, second} {
		if _, err := old.Open(sealed, at); err != nil {
			t.Error(err)
		}
	}
	if err := r.Replace(map[string][]byte{"k2": bytes.Repeat([]byte("2"), 32)}, "k2"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(first, at); envelope.ReasonOf(err) != envelope.ReasonKey {
		t.Errorf("of an ended key: %v", err)
	}
	if _, err := r.Open(second, at); err != nil {
		t.Error(err)
	}
}

func TestRingsRejectBadKeys(t *testing.T) {
	t.Parallel()
	key := make([]byte, 32)
	for what, c := range map[string]struct {
		keys   map[string][]byte
		active string
	}{
		"none":               {nil, "k"},
		"no key that seals":  {map[string][]byte{"k": key}, "other"},
		"a short key":        {map[string][]byte{"k": key[:16]}, "k"},
		"without a name":     {map[string][]byte{"": key}, ""},
		"with a long name":   {map[string][]byte{strings.Repeat("k", 101): key}, strings.Repeat("k", 101)},
		"one of them is bad": {map[string][]byte{"k": key, "l": nil}, "k"},
	} {
		if _, err := envelope.NewRing(c.keys, c.active); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func FuzzOpen(f *testing.F) {
	r, err := envelope.NewRing(map[string][]byte{"k": make([]byte, 32)}, "k")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(r.Seal([]byte("secret"), at), "sessions", "grant_enc", "1")
	f.Add([]byte{1, 1}, "", "", "")
	sealed := r.Seal([]byte("secret"), at)
	f.Fuzz(func(t *testing.T, text []byte, table, column, row string) {
		place := envelope.Place{Table: table, Column: column, Row: row}
		_, err := r.Open(text, place)
		if err == nil && (place != at || !bytes.HasPrefix(text, sealed[:3])) {
			t.Errorf("%x opens at %s", text, place)
		}
		if err != nil && envelope.ReasonOf(err) == "" {
			t.Errorf("an error without a reason: %v", err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	r, err := envelope.NewRing(map[string][]byte{"k": make([]byte, 32)}, "k")
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 512)
	for b.Loop() {
		r.Seal(body, at)
	}
}
