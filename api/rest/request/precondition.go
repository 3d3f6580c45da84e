package request

import (
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// IfMatch returns the version that a change expects. Zero means any version. Only one strong tag of
// this API, or *, can match: any other tag is treated as the tag of another version.
func IfMatch(header *string, required bool) (version int64, err error) {
	tag := strings.TrimSpace(Or(header, ""))
	switch {
	case tag == "" && required:
		return 0, errs.New(errs.VersionRequired, "this change needs the version that it is based on").At("If-Match").
			Try("read it first, and send its ETag as If-Match")
	case tag == "" || tag == "*":
		return 0, nil
	case !isTag(strings.TrimPrefix(tag, "W/")):
		return 0, errs.Invalid("If-Match", "is not one quoted tag")
	}
	version, err = strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
	if err != nil || version <= 0 || ETag(version) != tag {
		return 0, errs.New(errs.VersionMismatch, "it has changed since this version").At("If-Match").Try("read it again")
	}
	return version, nil
}

func isTag(s string) bool {
	return len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' && !strings.ContainsAny(s[1:len(s)-1], "\"\x7f")
}

// NotModified returns whether the client has the version that etag names. A weak tag suffices, because
// it names the same content.
func NotModified(header *string, etag string) bool {
	for tag := range strings.SplitSeq(Or(header, ""), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// ETag returns the strong tag of a row's version.
func ETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }
