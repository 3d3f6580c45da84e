package request

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

func TestPreconditions(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]struct {
		version int64
		code    string
	}{
		`"7"`:      {version: 7},
		` "7" `:    {version: 7},
		`*`:        {},
		`W/"7"`:    {code: "version_mismatch"},
		`"0"`:      {code: "version_mismatch"},
		`"-1"`:     {code: "version_mismatch"},
		`"07"`:     {code: "version_mismatch"},
		`"+7"`:     {code: "version_mismatch"},
		`"other"`:  {code: "version_mismatch"},
		`7`:        {code: "validation_error"},
		`"7", "8"`: {code: "validation_error"},
		`"`:        {code: "validation_error"},
	} {
		version, err := IfMatch(&header, true)
		if version != want.version || string(errs.CodeOf(err)) != want.code {
			t.Errorf("%s: %d, %v", header, version, err)
		}
	}
	if _, err := IfMatch(nil, true); errs.CodeOf(err) != errs.VersionRequired {
		t.Errorf("required: %v", err)
	}
	if version, err := IfMatch(nil, false); version != 0 || err != nil {
		t.Errorf("optional: %d, %v", version, err)
	}
	for header, want := range map[string]bool{`"7"`: true, `W/"7"`: true, `"6", "7"`: true, `*`: true, `"6"`: false, `7`: false, ``: false} {
		if got := NotModified(&header, `"7"`); got != want {
			t.Errorf("If-None-Match %s: %t", header, got)
		}
	}
}
