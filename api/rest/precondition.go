package rest

import (
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// etag is the strong tag of a row at a version.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// changed reads If-Match of a call that must say what it has seen; zero means
// any version.
func changed(header *string) (int64, error) {
	if header == nil {
		return 0, errs.New(errs.VersionRequired, "this call needs If-Match").At("If-Match").
			Try("read it first and send its ETag, or * to overwrite whatever is there")
	}
	return meant(header)
}

// meant reads If-Match of a call that may say what it has seen.
func meant(header *string) (int64, error) {
	if header == nil || *header == "*" {
		return 0, nil
	}
	text, ok := strings.CutPrefix(*header, `"`)
	text, closed := strings.CutSuffix(text, `"`)
	version, err := strconv.ParseInt(text, 10, 64)
	if !ok || !closed || err != nil || version < 1 {
		// A tag that we never gave out is of a copy that is not current.
		return 0, errs.New(errs.VersionMismatch, "this is not the version that is there").At("If-Match").
			Try("read it again and send its ETag")
	}
	return version, nil
}

// current says that the client's copy is.
func current(header *string, tag string) bool {
	return header != nil && (*header == tag || *header == "*")
}
