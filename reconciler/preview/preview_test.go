package preview_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/reconciler/preview"
)

// uid is a fixed id.
func uid(n byte) uuid.UUID {
	return uuid.UUID{0, 0, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, n}
}

func object(kind desired.Kind, name string, n byte, spec string) desired.Object {
	return desired.Object{
		Kind: kind, Name: name, UID: ids.Object{UUID: uid(n)}, Spec: []byte(spec), SpecHash: desired.Hash([]byte(spec)), Generation: 2, ResourceVersion: 3,
		Source: desired.Source{Owner: desired.OwnerGit, Repository: "git://fleet", Commit: "9f3c2d1e", Path: "fleet.cue", Line: int(n), Column: 3},
	}
}

func TestAnEmptyDifferenceIsAnEmptyPlan(t *testing.T) {
	t.Parallel()
	p := preview.Make(preview.Change{Source: "fleet", Commit: "9f3c", Base: "8e2b", Diff: desired.Difference{Kept: 3}}, preview.Facts{}, preview.Rules{})
	var text strings.Builder
	if err := p.Text(&text); err != nil || !p.Empty() || p.Objects != 3 || len(p.Steps)+len(p.Waits)+len(p.Findings) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if want := "Plan: 0 to create, 0 to change, 0 to delete.\n"; text.String() != want {
		t.Errorf("%q", text.String())
	}
}
