package alloc

import (
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
)

// mountsOf reads the values of --mount: PATH:AT, with an optional :ro or :rw. Only the path can contain a colon.
func mountsOf(texts []string) (list []oapi.AllocationMount, err error) {
	for _, text := range texts {
		rest, mode := text, oapi.Rw
		for _, m := range []oapi.AllocationMountMode{oapi.Ro, oapi.Rw} {
			if before, found := strings.CutSuffix(text, ":"+string(m)); found && strings.Contains(before, ":") {
				rest, mode = before, m
			}
		}
		i := strings.LastIndexByte(rest, ':')
		if i < 0 || rest[i+1:] == "" {
			return nil, output.UsageError("--mount %q is not PATH:AT or PATH:AT:ro", text)
		}
		path := rest[:i]
		list = append(list, oapi.AllocationMount{Path: &path, At: rest[i+1:], Mode: &mode})
	}
	return list, nil
}
