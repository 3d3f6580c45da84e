package backup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/backup/store/folder"
)

const mib = 1 << 20

// archived is a store with the history of timeline 2, which begins in segment 5 of timeline 1.
func archived(t *testing.T) (*Service, seal.Operator) {
	t.Helper()
	serverText, operatorText, err := seal.Generate()
	must(t, err)
	server, err := seal.ParseServer("key", []byte(serverText))
	must(t, err)
	operator, err := seal.ParseOperator("identity", []byte(operatorText))
	must(t, err)
	target, err := folder.Open(t.TempDir())
	must(t, err)
	s := &Service{Store: target}
	file := filepath.Join(t.TempDir(), "00000002.history")
	must(t, os.WriteFile(file, []byte("1\t0/500100\tno recovery target specified\n"), 0o600))
	must(t, s.push(t.Context(), file, 7, server))
	return s, operator
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestGapsAlongTheTimelines: PostgreSQL reads timeline 1 up to segment 4, and timeline 2 from segment 5.
func TestGapsAlongTheTimelines(t *testing.T) {
	t.Parallel()
	s, operator := archived(t)
	all := []string{"00000002.history"}
	for n := range uint64(9) {
		all = append(all, lsn.Name(1, n, mib))
		if n >= 5 {
			all = append(all, lsn.Name(2, n, mib))
		}
	}
	first := manifest.Manifest{System: 7, Timeline: 1, SegmentBytes: mib, Start: 2 * mib, Segments: []string{lsn.Name(1, 2, mib)}}
	second := first
	second.Timeline, second.Start, second.Segments = 2, 6*mib, nil
	third := second
	third.Timeline = 3
	for name, c := range map[string]struct {
		m       manifest.Manifest
		p       Point
		missing string
		want    errs.Code
	}{
		"whole":                                {m: first},
		"behind the fork":                      {m: first, missing: lsn.Name(1, 6, mib)},
		"the old segment of the fork":          {m: first, missing: lsn.Name(1, 5, mib)},
		"before the backup":                    {m: first, missing: lsn.Name(1, 1, mib)},
		"behind the point":                     {m: first, p: Point{LSN: 6 * mib}, missing: lsn.Name(2, 7, mib)},
		"before the fork":                      {first, Point{}, lsn.Name(1, 4, mib), errs.NotFound},
		"of the backup":                        {first, Point{}, lsn.Name(1, 2, mib), errs.NotFound},
		"the new segment of the fork":          {first, Point{}, lsn.Name(2, 5, mib), errs.NotFound},
		"of the later timeline":                {first, Point{}, lsn.Name(2, 7, mib), errs.NotFound},
		"behind the fork of the old timeline":  {first, Point{Timeline: 1}, lsn.Name(1, 6, mib), errs.NotFound},
		"without the history":                  {m: first, missing: "00000002.history"},
		"a backup of the later timeline":       {second, Point{}, lsn.Name(2, 7, mib), errs.NotFound},
		"the old timeline of a later backup":   {m: second, missing: lsn.Name(1, 7, mib)},
		"a point on a timeline without a file": {first, Point{Timeline: 4}, "", errs.NotFound},
		"a point on another branch":            {third, Point{Timeline: 2}, "", errs.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == c.missing })
			path, err := s.timelines(t.Context(), c.m, c.p, operator, names)
			if err == nil {
				err = checkWAL(c.m, c.p, path, names)
			}
			if errs.CodeOf(err) != c.want || c.want == errs.NotFound && !strings.Contains(err.Error(), c.missing) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
