// Package attachment makes responses with the bytes of tenants. The REST API and the S3 endpoint have the same.
package attachment

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaas/product/storage"
)

// SetHeaders makes a response that no browser executes, whatever a tenant has stored.
func SetHeaders(h http.Header, o storage.Object) {
	h.Set("ETag", o.ETag())
	for name, value := range Answer(o) {
		h.Set(name, value)
	}
	Confine(h)
	if o.SHA256 != nil {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(o.SHA256)+":")
	}
}

// Answer returns the headers that also an object store adds to its response.
func Answer(o storage.Object) map[string]string {
	return map[string]string{"Content-Type": SafeType(o.MediaType), "Content-Disposition": Disposition(o.Name)}
}

// Confine makes a browser run nothing of a response.
func Confine(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Disposition names the file twice: for old clients in ASCII, and in UTF-8 (RFC 6266).
func Disposition(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\%`, r) {
			return '_'
		}
		return r
	}, name)
	return `attachment; filename="` + plain + `"; filename*=UTF-8''` + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
}

// safeTypes are the media types that a download may have. All others, such as HTML and SVG, are bytes.
var safeTypes = map[string]bool{
	"text/plain": true, "text/csv": true, "application/json": true, "application/pdf": true, "application/zip": true, "application/gzip": true,
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "audio/mpeg": true, "video/mp4": true, "video/webm": true,
}

// SafeType returns the media type of a download.
func SafeType(media string) string {
	switch {
	case !safeTypes[media]:
		return "application/octet-stream"
	case strings.HasPrefix(media, "text/"):
		return media + "; charset=utf-8"
	}
	return media
}
