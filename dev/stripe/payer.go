package stripe

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// DeclinedError is a page that has not taken a card, in its words.
type DeclinedError struct{ Message string }

func (e *DeclinedError) Error() string { return e.Message }

// CardPaid is a card that is always taken.
const CardPaid = "4242424242424242"

var (
	action  = regexp.MustCompile(`<form method="post" action="(/c/pay/[a-z0-9_]+)"`)
	message = regexp.MustCompile(`<p role="(?:alert|status)"[^>]*>([^<]*)</p>`)
)

// Pay opens a page and pays on it by card, as a person with a browser would, and
// returns where the browser is sent. It does not go there: what is there may ask
// for a sign-in.
func Pay(ctx context.Context, page, number string) (next string, err error) {
	// The reply to a form may be a redirect to anywhere; a browser of ours stops.
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	_, body, err := browse(ctx, browser, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	found := action.FindStringSubmatch(body)
	if found == nil {
		return "", &DeclinedError{said(body)}
	}
	at, err := url.Parse(page)
	if err != nil {
		return "", fmt.Errorf("reading the page's address: %w", err)
	}
	cvc := "123"
	if strings.HasPrefix(number, "3") {
		cvc = "1234"
	}
	form := url.Values{"number": {number}, "expiry": {"12/49"}, "cvc": {cvc}, "email": {"payer@example.com"}}
	next, body, err = browse(ctx, browser, http.MethodPost, at.Scheme+"://"+at.Host+found[1], form)
	if err != nil {
		return "", err
	}
	if next == "" {
		return "", &DeclinedError{said(body)}
	}
	return next, nil
}

// said is what a page tells its reader.
func said(body string) string {
	if found := message.FindStringSubmatch(body); found != nil {
		return html.UnescapeString(found[1])
	}
	return "this is no page that anything can be paid on"
}

func browse(ctx context.Context, c *http.Client, method, to string, form url.Values) (location, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(form.Encode()))
	if err != nil {
		return "", "", fmt.Errorf("asking for a page: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := c.Do(r)
	if err != nil {
		return "", "", fmt.Errorf("asking for a page: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return "", "", fmt.Errorf("reading a page: %w", err)
	}
	return answer.Header.Get("Location"), string(text), nil
}
