// Package page writes HTML pages for browsers.
package page

import (
	"bytes"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

const (
	// ContentSecurityPolicy allows the style and the forms of this server, and no script.
	ContentSecurityPolicy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	// ScriptPolicy also allows scripts of this server: only a script can read a code after the #, which
	// reaches no server and no log.
	ScriptPolicy = ContentSecurityPolicy + "; script-src 'self'"
	ContentType  = "text/html; charset=utf-8"
)

// Writer writes HTML pages for browsers.
type Writer struct {
	Chain *middleware.Chain
	// SignInOffered returns whether a browser can sign in at this server.
	SignInOffered func() bool
}

// Visitor returns the user who is signed in at a page.
func (p *Writer) Visitor(c *gin.Context) (identity.Caller, error) {
	_, r := request.Of(c)
	caller, err := p.Chain.CallerOf(c, r)
	caller.CorrelationID = r.CorrelationID
	return caller, err
}

// Write responds with a page without scripts.
func (p *Writer) Write(c *gin.Context, t *template.Template, data any) {
	p.WriteWithPolicy(c, http.StatusOK, ContentSecurityPolicy, t, data)
}

// WriteWithPolicy responds with a page under a content security policy.
func (p *Writer) WriteWithPolicy(c *gin.Context, status int, policy string, t *template.Template, data any) {
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		p.Chain.Log.ErrorContext(c.Request.Context(), "rendering a page", slog.Any("err", err))
		p.Chain.Fail(c, err)
		return
	}
	c.Header("Content-Security-Policy", policy)
	c.Header("Referrer-Policy", "same-origin")
	c.Header("Cache-Control", "no-store")
	c.Data(status, ContentType, withNotice(out.Bytes(), c.Writer.Header().Get(middleware.NoticeHeader)))
}

const contentStart = "<main>\n" // of web/pages/frame.html; a text in a page has it escaped

// withNotice shows the notice of the platform above the content of a page.
func withNotice(page []byte, encoded string) []byte {
	text, err := url.PathUnescape(encoded)
	if err != nil || text == "" {
		return page
	}
	return bytes.Replace(page, []byte(contentStart), []byte(contentStart+`<p role="status">`+template.HTMLEscapeString(text)+"</p>\n"), 1)
}

// AskToSignIn redirects a browser without a session to the sign-in page. A program receives the error.
func (p *Writer) AskToSignIn(c *gin.Context, err error) {
	wantsPage := c.Request.Method == http.MethodGet && strings.Contains(c.GetHeader("Accept"), "text/html")
	if response.StatusOf(errs.CodeOf(err)) == http.StatusUnauthorized && wantsPage && p.SignInOffered() {
		c.Redirect(http.StatusFound, "/sign-in?return="+url.QueryEscape(c.Request.URL.Path))
		c.Abort()
		return
	}
	p.Chain.Fail(c, err)
}

// ReturnTo limits a redirect to this site. Browsers read a backslash as a slash and leave out tabs and
// line breaks, so /<tab>/host is another site for them.
func ReturnTo(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsFunc(path, leadsAway) {
		return "/"
	}
	return path
}

func leadsAway(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
