package mail

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestDelaysLast48Hours(t *testing.T) {
	t.Parallel()
	var all time.Duration
	for _, d := range Delays() {
		all += d
	}
	if all != 48*time.Hour || (SendMail{}).InsertOpts().MaxAttempts != 10 {
		t.Errorf("%d attempts in %s", (SendMail{}).InsertOpts().MaxAttempts, all)
	}
}

// A text of a tenant is one line, and shows what it contains.
func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                     "plain",
		"a\r\nBcc: b@example.test":  "a Bcc: b@example.test",
		"a\u2028b\u0085c\x00d\x1b[": "a b c d [",
		"invoice \u202Egpj.exe":     "invoice gpj.exe",
		"\u2066a\u2069\u200F\u061C": "a",
		"a\xffb":                    "ab",
		"Größe  und\tmehr":          "Größe und mehr",
		"":                          "",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
	if got := Clean(strings.Repeat("ä", 5000)); len([]rune(got)) != maxLine+1 {
		t.Errorf("%d runes", len([]rune(got)))
	}
}

// A link is valid with its key and address only, and every changed bit ends it.
func TestLinks(t *testing.T) {
	t.Parallel()
	key := NewKey()
	token := Link{User: uuid.Must(uuid.NewV7()), Kinds: []string{"low_balance", "expiring"}}.Token(key, "Dev@example.test")
	l, err := ParseLink(token)
	if err != nil || !l.Valid(key, "dev@example.test") || strings.Join(l.Kinds, " ") != "low_balance expiring" {
		t.Fatalf("%+v, %v", l, err)
	}
	if l.Valid(NewKey(), "dev@example.test") || l.Valid(key, "other@example.test") || l.Valid(nil, "dev@example.test") {
		t.Error("another key or address is accepted")
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		if l, err := ParseLink(base64.RawURLEncoding.EncodeToString(raw)); err == nil && l.Valid(key, "dev@example.test") {
			t.Errorf("bit %d may change", bit)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for _, token := range []string{"", "x", token[:20], token + "=", token + " ", strings.Repeat("a", 5000)} {
		if l, err := ParseLink(token); err == nil && l.Valid(key, "dev@example.test") {
			t.Errorf("%q is accepted", token)
		}
	}
}

// A text that the catalogue lacks is an error, and no e-mail with a gap.
func TestAMissingTextIsAnError(t *testing.T) {
	t.Parallel()
	m, err := Render(Content{Kind: "x", Subject: "s", Entries: []Entry{{Kind: "x", Title: "t"}}, Audience: "a"})
	if err == nil || !strings.Contains(err.Error(), "action.x") {
		t.Errorf("%+v, %v", m, err)
	}
}
