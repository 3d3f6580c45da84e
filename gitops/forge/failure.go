package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// failure classifies an error response of the forge. Jobs with rate_limited and unavailable are
// retried; all other codes need an operator.
func failure(res *http.Response, body []byte, now time.Time) error {
	a := &answer{status: res.StatusCode, message: errorMessage(body), wait: retryAfter(res.Header, now)}
	switch {
	case a.status == http.StatusTooManyRequests, a.status == http.StatusForbidden && limited(res.Header, a):
		return errs.New(errs.RateLimited, "the forge requests a pause").Because(a)
	case a.status >= 300 && a.status < 400:
		return errs.New(errs.ProviderFailed, "the forge leads elsewhere, and is not followed").Try("name the project and the address as they are now").Because(a)
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return errs.New(errs.ProviderFailed, "the token does not allow the request to the forge").Try("create a token that reads pull requests and writes statuses and comments").Because(a)
	case a.status == http.StatusNotFound, a.status == http.StatusGone:
		return errs.New(errs.NotFound, "the forge does not know it, or hides it from this token").Because(a)
	case a.status >= http.StatusInternalServerError, a.status == http.StatusRequestTimeout:
		return errs.New(errs.Unavailable, "the forge fails").Because(a)
	}
	return errs.New(errs.ProviderFailed, "the forge rejects the request").Because(a)
}

// limited distinguishes GitHub's rate limits from its other errors: both have status 403.
func limited(h http.Header, a *answer) bool {
	return h.Get("Retry-After") != "" || h.Get("X-RateLimit-Remaining") == "0" || strings.Contains(strings.ToLower(a.message), "rate limit")
}

// Limits of the pause that a forge requests. A longer pause is shortened, since a wrong header
// would otherwise stop the reports for days.
const (
	leastPause = time.Second
	mostPause  = time.Hour
	// GitHub's documentation requires this pause if the response has no header.
	usualPause = time.Minute
)

// retryAfter returns the requested pause: seconds, a date, or the time at which the rate limit is
// reset. Zero means that the response has none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	wait := time.Duration(0)
	if after := h.Get("Retry-After"); after != "" {
		if n, err := strconv.ParseInt(after, 10, 32); err == nil {
			wait = time.Duration(n) * time.Second
		} else if at, err := http.ParseTime(after); err == nil {
			wait = at.Sub(now)
		}
	} else if h.Get("X-RateLimit-Remaining") == "0" || h.Get("RateLimit-Remaining") == "0" {
		reset := h.Get("X-RateLimit-Reset")
		if reset == "" {
			reset = h.Get("RateLimit-Reset")
		}
		if n, err := strconv.ParseInt(reset, 10, 64); err == nil {
			wait = time.Unix(n, 0).Sub(now)
		}
	}
	if wait == 0 {
		return 0
	}
	return min(max(wait, leastPause), mostPause)
}

// Pause returns the pause that the forge has requested, or 0.
func Pause(err error) time.Duration {
	said, ok := errors.AsType[*answer](err)
	if errs.CodeOf(err) != errs.RateLimited {
		return 0
	}
	if !ok || said.wait == 0 {
		return usualPause
	}
	return said.wait
}

// errorMessage extracts the message of an error response. GitLab's message may be an object; then
// its JSON is used. Operators read the text, so it is shortened and made printable.
func errorMessage(body []byte) string {
	var refusal struct {
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
		Errors  json.RawMessage `json:"errors"`
	}
	text := string(body)
	if json.Unmarshal(body, &refusal) == nil {
		text = ""
		for _, raw := range []json.RawMessage{refusal.Message, refusal.Error, refusal.Errors} {
			var sentence string
			if json.Unmarshal(raw, &sentence) != nil {
				sentence = string(raw)
			}
			if sentence != "" && sentence != "null" {
				text = strings.TrimSpace(text + " " + sentence)
			}
		}
	}
	return line(text, maxErrorMessage)
}

const maxErrorMessage = 300

// line makes one printable line of at most so many characters.
func line(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "�"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if runes := []rune(text); len(runes) > most {
		text = strings.TrimSpace(string(runes[:most-1])) + "…"
	}
	return text
}

// reason returns the forge's message for operators, without the wrapped errors of the log.
func reason(err error) string {
	text := ""
	if e, ok := errors.AsType[*errs.Error](err); ok {
		text = e.Message
	}
	if a, ok := errors.AsType[*answer](err); ok {
		text = fmt.Sprintf("%s (%d: %s)", text, a.status, a.message)
	} else if text == "" {
		text = err.Error()
	}
	return line(text, 2*maxErrorMessage)
}
