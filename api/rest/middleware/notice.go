package middleware

import (
	"net/url"
	"sync/atomic"

	"github.com/gpuaas/gpuaas/policies"
)

// noticeHeader contains the message of the policy platform.notice, percent-encoded. It is absent without one.
const noticeHeader = "X-Platform-Notice"

// NoticeFrom returns the function for Config.Notice. It encodes the message once for each revision of the policies.
func NoticeFrom(c *policies.Client) func() []string {
	type encoded struct {
		revision int64
		values   []string
	}
	var last atomic.Pointer[encoded]
	return func() []string {
		now := c.Latest()
		if l := last.Load(); l != nil && l.revision == now.Revision {
			return l.values
		}
		e := &encoded{revision: now.Revision}
		if text := now.For().String(policies.PlatformNotice); text != "" {
			e.values = []string{url.PathEscape(text)}
		}
		last.Store(e)
		return e.values
	}
}
