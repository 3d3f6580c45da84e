// Package portal serves the built portal.
package portal

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/page"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/web"
)

// Path is the prefix of all screens. Pages that the server renders and the API have other paths, so no screen can hide
// one of them.
const Path = "/portal/"

const (
	immutable = "public, max-age=31536000, immutable"
	// The styles of components carry the nonce. Every other style and script is a file of the portal.
	policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-NONCE'; img-src 'self' data:; font-src 'self'; " +
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	permissions = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
)

var unbuilt = web.MustPage("unbuilt")

// Mount adds the portal to the router. notFound handles an unknown file.
func Mount(e *gin.Engine, p *web.Portal, notFound gin.HandlerFunc) {
	e.GET(strings.TrimSuffix(Path, "/"), func(c *gin.Context) { c.Redirect(http.StatusFound, Path) })
	e.GET(Path+"*path", func(c *gin.Context) {
		name := strings.TrimPrefix(c.Param("path"), "/")
		asset, ok := p.Assets[name]
		switch {
		case ok:
			sendAsset(c, asset)
		case strings.HasPrefix(name, "assets/"):
			notFound(c)
		case !p.Built():
			sendUnbuilt(c)
		default:
			sendPage(c, p)
		}
	})
}

func sendPage(c *gin.Context, p *web.Portal) {
	nonce := rand.Text()
	c.Header("Content-Security-Policy", strings.Replace(policy, "NONCE", nonce, 1))
	c.Header("Permissions-Policy", permissions)
	c.Header("Cross-Origin-Opener-Policy", "same-origin")
	c.Header("Referrer-Policy", "same-origin")
	c.Data(http.StatusOK, page.ContentType, p.Page(nonce))
}

func sendUnbuilt(c *gin.Context) {
	var out bytes.Buffer
	if err := unbuilt.Execute(&out, nil); err != nil {
		_ = c.Error(err)
	}
	c.Header("Content-Security-Policy", page.ContentSecurityPolicy)
	c.Data(response.StatusOf(errs.Unavailable), page.ContentType, out.Bytes())
}

// sendAsset sends the smallest coding that the client accepts. The name changes with the content, so the file can be
// cached for ever.
func sendAsset(c *gin.Context, a web.Asset) {
	coding := ""
	for _, name := range []string{"br", "gzip"} {
		if a.Encodings[name] != nil && accepts(c.GetHeader("Accept-Encoding"), name) {
			coding = name
			break
		}
	}
	etag := `"` + a.ETag + coding + `"`
	c.Header("Cache-Control", immutable)
	c.Header("ETag", etag)
	c.Header("Vary", "Accept-Encoding")
	if strings.Contains(c.GetHeader("If-None-Match"), etag) {
		c.Status(http.StatusNotModified)
		return
	}
	if coding != "" {
		c.Header("Content-Encoding", coding)
	}
	c.Data(http.StatusOK, a.ContentType, a.Encodings[coding])
}

// accepts returns whether a client accepts a coding (RFC 9110, 12.5.3).
func accepts(header, coding string) bool {
	for item := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(item), ";")
		if strings.EqualFold(strings.TrimSpace(name), coding) {
			return strings.Trim(strings.TrimSpace(weight), "q=.0") != "" || weight == ""
		}
	}
	return false
}
