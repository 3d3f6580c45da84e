package mail

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	htmltemplate "html/template"
	"net/url"
	"strings"
	texttemplate "text/template"
	"unicode"
)

//go:embed templates
var files embed.FS

// Language of the texts. English is complete, and the other languages fall back to it.
type Language string

// English is the default.
const English Language = "en"

// catalogue contains the texts of a language by key.
type catalogue map[string]string

var catalogues = func() map[Language]catalogue {
	all := map[Language]catalogue{}
	for _, l := range []Language{English} {
		text, err := files.ReadFile("templates/" + string(l) + ".json")
		if err != nil {
			panic(err)
		}
		c := catalogue{}
		if err := json.Unmarshal(text, &c); err != nil {
			panic(fmt.Errorf("reading the catalogue of %s: %w", l, err))
		}
		all[l] = c
	}
	return all
}()

// text returns the text of a key with its values. A key without a text is an error, so that no e-mail has a gap.
func (l Language) text(key string, values ...any) (string, error) {
	if l == "" {
		l = English
	}
	text, found := catalogues[l][key]
	if !found {
		if text, found = catalogues[English][key]; !found {
			return "", fmt.Errorf("the catalogue has no text %s", key)
		}
	}
	if len(values) == 0 {
		return text, nil
	}
	return fmt.Sprintf(text, values...), nil
}

// Content is the content of an e-mail.
type Content struct {
	Kind     string // of the notification, or digest or invitation
	Subject  string
	Entries  []Entry
	More     int    // further notifications of a digest
	Audience string // why the recipient receives it; empty: an invitation
	Language Language
	// Base is the address of the portal and of the page that ends e-mails.
	Base  string
	Token string // of the link that ends e-mails; empty: none
}

// Entry is one notification.
type Entry struct {
	Kind, Title, Message string
	Count                int
	At                   string
	Screen               string // of the portal
}

// Render writes both forms of an e-mail, and the headers that follow from its content.
func Render(c Content) (m Message, err error) {
	c = c.clean()
	functions := map[string]any{"t": c.Language.text, "screen": c.screen, "preferences": func() string { return c.Base + "/portal/profile" }, "unsubscribe": c.unsubscribe}
	text, err := texttemplate.New("layout.txt").Option("missingkey=error").Funcs(functions).ParseFS(files, "templates/layout.txt")
	if err != nil {
		return m, fmt.Errorf("reading the text template: %w", err)
	}
	html, err := htmltemplate.New("layout.html").Option("missingkey=error").Funcs(functions).ParseFS(files, "templates/layout.html")
	if err != nil {
		return m, fmt.Errorf("reading the HTML template: %w", err)
	}
	var asText, asHTML bytes.Buffer
	if err := text.Execute(&asText, c); err != nil {
		return m, fmt.Errorf("writing the text of an e-mail: %w", err)
	}
	if err := html.Execute(&asHTML, c); err != nil {
		return m, fmt.Errorf("writing the HTML of an e-mail: %w", err)
	}
	return Message{Kind: c.Kind, Subject: c.Subject, Text: asText.String(), HTML: asHTML.String(), UnsubscribeURL: c.unsubscribe()}, nil
}

func (c Content) screen(path string) string { return c.Base + "/portal/" + path }

func (c Content) unsubscribe() string {
	if c.Token == "" {
		return ""
	}
	return c.Base + UnsubscribePath + "?link=" + url.QueryEscape(c.Token)
}

func (c Content) clean() Content {
	c.Subject = Clean(c.Subject)
	entries := make([]Entry, len(c.Entries))
	for i, e := range c.Entries {
		e.Title, e.Message = Clean(e.Title), Clean(e.Message)
		entries[i] = e
	}
	c.Entries = entries
	if c.Language == "" {
		c.Language = English
	}
	return c
}

// Invitation returns the content of the e-mail to an invited user. The link leads to the list of invitations, and is no
// credential.
func Invitation(tenant, role, ends string) (Content, error) {
	c := Content{Kind: "invitation", Language: English}
	tenant = Clean(tenant)
	subject, err := c.Language.text("invitation.subject", tenant)
	if err != nil {
		return c, err
	}
	message, err := c.Language.text("invitation.message", tenant, role, ends)
	c.Subject, c.Entries = subject, []Entry{{Kind: c.Kind, Title: subject, Message: message, Count: 1}}
	return c, err
}

// Digest makes the content that of several notifications, of which the entries may be the first ones.
func (c *Content) Digest(notifications int) (err error) {
	c.Kind, c.More = "digest", notifications-len(c.Entries)
	c.Subject, err = c.Language.text("digest.subject", notifications)
	return err
}

// maxLine bounds a text that a tenant writes.
const maxLine = 2000

// Clean makes one line of a text that a tenant may have written: without control characters, which could add headers, and
// without those that change the direction of the text, which could show another one.
func Clean(text string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Bidi_Control, r), r == unicode.ReplacementChar:
			return -1
		case unicode.IsControl(r), unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	clean = strings.Join(strings.Fields(clean), " ")
	if runes := []rune(clean); len(runes) > maxLine {
		clean = string(runes[:maxLine]) + "…"
	}
	return clean
}

// ThreadOf returns the id that all e-mails about a resource refer to.
func ThreadOf(urn, domain string) string {
	if urn == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(urn))
	return "resource-" + hex.EncodeToString(sum[:16]) + "@" + domain
}
