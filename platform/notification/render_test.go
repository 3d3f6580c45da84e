package notification

import (
	"bytes"
	"flag"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	mails "github.com/gpuaas/gpuaas/platform/notification/mail"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "mail", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("%s differs:\n%s", path, got)
	}
}

// contentOf returns the content of an e-mail about a notification.
func contentOf(k kind, about content) mails.Content {
	return mails.Content{
		Kind: k.name, Subject: about.title, Base: "https://gpuaas.example", Audience: k.audience.name,
		Token:   mails.Link{User: uuid.MustParse("01990000-0000-7000-8000-000000000001"), Kinds: []string{k.name}}.Token(bytes.Repeat([]byte{1}, 32), "dev@example.test"),
		Entries: []mails.Entry{k.entry(about, 2, time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC).Format(timeForm))},
	}
}

var (
	tags   = regexp.MustCompile(`(?s)<head>.*</head>|<[^>]*>`)
	hrefs  = regexp.MustCompile(`href="([^"]*)"`)
	remote = regexp.MustCompile(`(?i)<(img|link|script|iframe|object|video|audio|form|base|meta http)|src=|url\(|@import|javascript:`)
)

// wordsOf splits a text or a page, with the addresses that it links.
func wordsOf(text string) []string {
	links := ""
	for _, m := range hrefs.FindAllStringSubmatch(text, -1) {
		links += " " + m[1]
	}
	all := strings.FieldsFunc(html.UnescapeString(tags.ReplaceAllString(text, " ")+links), func(r rune) bool { return strings.ContainsRune(" \n:-", r) })
	slices.Sort(all)
	return all
}

func checkForms(t *testing.T, m mails.Message) {
	t.Helper()
	if text, page := wordsOf(m.Text), wordsOf(m.HTML); !slices.Equal(text, page) {
		t.Errorf("%s: the text has %q, and the HTML has %q", m.Kind, text, page)
	}
	if found := remote.FindString(m.HTML); found != "" {
		t.Errorf("%s: the HTML has %q", m.Kind, found)
	}
	if strings.ContainsAny(m.Subject, "\r\n") {
		t.Errorf("%s: the subject is %q", m.Kind, m.Subject)
	}
}

// Each kind has both forms of an e-mail with the same facts, and no content from elsewhere.
func TestEmailsOfAllKinds(t *testing.T) {
	t.Parallel()
	for _, k := range slices.Concat(kinds(), directKinds(), []kind{testKind}) {
		about := content{urn: "v:s:-:t:-:webhook:1", title: k.title, message: "This is a test. Nothing has happened."}
		if k.stream != "" {
			e := (&bundle{t: t}).event(k, "")
			e.Payload = payloadOf(t, k, allFields(k))
			var err error
			if about, err = k.render(e); err != nil {
				t.Fatal(err)
			}
		}
		m, err := mails.Render(contentOf(k, about))
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		checkForms(t, m)
		golden(t, k.name+".txt", m.Text)
		golden(t, k.name+".html", m.HTML)
	}
}

func TestEmailsOfDigestsAndInvitations(t *testing.T) {
	t.Parallel()
	c := contentOf(kindOf(t, "low_balance"), content{title: "Balance is low", message: "The balance is EUR 9.00."})
	c.Entries = append(c.Entries, c.Entries[0])
	if err := c.Digest(60); err != nil {
		t.Fatal(err)
	}
	invited, err := mails.Invitation("Example\r\nBcc: x", "member", "2026-01-12 09:00 UTC")
	if err != nil {
		t.Fatal(err)
	}
	invited.Base = "https://gpuaas.example"
	for name, c := range map[string]mails.Content{"digest": c, "invitation": invited} {
		m, err := mails.Render(c)
		if err != nil {
			t.Fatal(err)
		}
		checkForms(t, m)
		golden(t, name+".txt", m.Subject+"\n\n"+m.Text)
		golden(t, name+".html", m.HTML)
	}
}

// A tenant's text in any field adds no header, no element, and no direction to an e-mail of any kind.
func TestHostileTextInEmails(t *testing.T) {
	t.Parallel()
	for _, k := range slices.Concat(kinds(), directKinds(), []kind{testKind}) {
		for _, hostile := range []string{
			"<img src=x onerror=alert(1)>", "</p><script>alert(1)</script>", "a\r\nBcc: b@example.test", "\u202Etxt.exe\u2066", "{{.Token}}", "javascript:alert(1)", "\x00\x1b]0;x\a",
		} {
			m, err := mails.Render(contentOf(k, content{urn: "v:s:r:t:p:allocation:" + hostile, title: hostile, message: hostile}))
			if err != nil {
				t.Fatal(err)
			}
			if found := regexp.MustCompile(`(?i)<(img|script)|href="javascript`).FindString(m.HTML); found != "" {
				t.Errorf("%s with %q has %q", k.name, hostile, found)
			}
			if strings.ContainsAny(m.Subject+m.Text, "\r\u202E\u2066\x00\x1b") || strings.Contains(m.Subject, "\n") {
				t.Errorf("%s with %q: %q", k.name, hostile, m.Subject)
			}
			if strings.Contains(m.Text, "\nBcc:") {
				t.Errorf("%s: %q", k.name, m.Text)
			}
		}
	}
}
