package middleware

import (
	"net/url"
	"sync/atomic"

	"github.com/gpuaas/gpuaas/policies"
)

// NoticeHeader contains the message of the policy platform.notice, percent-encoded. It is absent without one.
const NoticeHeader = "X-Platform-Notice"

// maxNotice bounds the header: a proxy whose buffer is smaller than the headers of a response rejects it.
const maxNotice = 2 << 10

// encode returns the text for the header, and shortens one that is too long.
func encode(text string) string {
	encoded := url.PathEscape(text)
	if len(encoded) <= maxNotice {
		return encoded
	}
	end := url.PathEscape("…")
	short := make([]byte, 0, maxNotice)
	for _, r := range text {
		next := url.PathEscape(string(r))
		if len(short)+len(next)+len(end) > maxNotice {
			break
		}
		short = append(short, next...)
	}
	return string(short) + end
}

// NoticeFrom returns the function for Config.Notice. It encodes the message once for each revision of the policies. A message of
// urgent replaces it.
func NoticeFrom(c *policies.Client, urgent func() string) func() []string {
	type encoded struct {
		revision int64
		values   []string
	}
	var last atomic.Pointer[encoded]
	return func() []string {
		if text := urgent(); text != "" {
			return []string{encode(text)}
		}
		now := c.Latest()
		if l := last.Load(); l != nil && l.revision == now.Revision {
			return l.values
		}
		e := &encoded{revision: now.Revision}
		if text := now.For().String(policies.PlatformNotice); text != "" {
			e.values = []string{encode(text)}
		}
		last.Store(e)
		return e.values
	}
}
