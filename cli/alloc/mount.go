package alloc

import (
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
)

// mountsOf reads the values of --mount: PATH:AT, with an optional :ro or :rw. Only the path can contain a colon, and then the mode
// is required: data:mnt:or is a misspelled mode, and not the path data:mnt.
func mountsOf(texts []string) (list []oapi.AllocationMount, err error) {
	for _, text := range texts {
		rest, mode, stated := text, oapi.Rw, false
		for _, m := range []oapi.AllocationMountMode{oapi.Ro, oapi.Rw} {
			if before, found := strings.CutSuffix(text, ":"+string(m)); found && strings.Contains(before, ":") {
				rest, mode, stated = before, m, true
			}
		}
		i := strings.LastIndexByte(rest, ':')
		if i < 0 || rest[i+1:] == "" {
			return nil, output.UsageError("--mount %q is not PATH:AT or PATH:AT:ro", text)
		}
		if !stated && strings.Contains(rest[:i], ":") {
			return nil, output.UsageError("--mount %q ends with %q, which is not ro or rw; a path with a colon needs one of them", text, rest[i+1:])
		}
		path := rest[:i]
		list = append(list, oapi.AllocationMount{Path: &path, At: rest[i+1:], Mode: &mode})
	}
	return list, nil
}
